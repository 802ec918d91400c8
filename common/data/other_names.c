// other_names.c: see other_names.h.
#include "other_names.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool all_begin(Names names, const char *prefix) {
    for (int i = 0; i < names.n; i++)
        if (!begins(names.list[i], prefix)) return false;
    return names.n > 0;
}

static bool has(Names names, const char *prefix, const char *name) {
    size_t length = strlen(prefix);
    for (int i = 0; i < names.n; i++)
        if (begins(names.list[i], prefix) && strcmp(names.list[i] + length, name) == 0) return true;
    return false;
}

char *wrapper_prefix(Names names) {
    static const char *const wrappers[] = {"module.", "_orig_mod."};
    char *prefix = xstrdup("");
    for (int w = 0; w < 2; w++) {
        char *longer = xprintf("%s%s", prefix, wrappers[w]);
        bool all = all_begin(names, longer);
        free(all ? prefix : longer);
        if (!all) continue;
        prefix = longer;
        w = -1; // there may be more
    }
    return prefix;
}

// The shortest prefix with which all names that are missing are in the file; NULL: there is none.
static char *prefix_of_missing(Names in_file, Names wanted, const char *missing) {
    char *shortest = NULL;
    for (int i = 0; i < in_file.n; i++) {
        size_t longer = strlen(in_file.list[i]), length = strlen(missing);
        if (longer <= length || strcmp(in_file.list[i] + longer - length, missing) != 0) continue;
        char *prefix = xprintf("%.*s", (int)(longer - length), in_file.list[i]);
        bool explains = !shortest || strlen(prefix) < strlen(shortest);
        for (int w = 0; w < wanted.n && explains; w++)
            explains = has(in_file, "", wanted.list[w]) || has(in_file, prefix, wanted.list[w]);
        free(explains ? shortest : prefix);
        if (explains) shortest = prefix;
    }
    return shortest;
}

static const char *whose(const char *prefix) {
    if (strstr(prefix, "_orig_mod.")) return " (as torch.compile names it)";
    if (strstr(prefix, "module.")) return " (as DataParallel and DDP name it)";
    return "";
}

#define SAVE_WITH "save it in PyTorch with save_file({"
#define OF_STATE  ": v for k, v in net.state_dict().items()"

static _Noreturn void die_of_prefix(const char *path, const char *taken, const char *prefix,
                                    Names in_file, const char *missing) {
    const char *whole = xprintf("%s%s", taken, prefix);
    bool all = all_begin(in_file, prefix);
    // What begins otherwise is of no use, unless it is a part of the network that has no prefix.
    const char *only = all ? "" : xprintf(" if k.startswith(\"%s\")", whole);
    const char *hint =
        xprintf(SAVE_WITH "k.removeprefix(\"%s\")" OF_STATE "%s}, \"w.safetensors\")", whole, only);
    if (all)
        die(hint, "%s: all names begin with \"%s\", those of this network do not", path, whole);
    die(hint, "%s: tensor \"%s\" is missing; there is \"%s%s\"%s", path, missing, whole, missing,
        whose(whole));
}

void die_of_names(const char *path, const char *taken, Names in_file, Names wanted) {
    int m = 0;
    while (m + 1 < wanted.n && has(in_file, "", wanted.list[m])) m++;
    const char *missing = wanted.list[m];
    const char *prefix = prefix_of_missing(in_file, wanted, missing);
    if (prefix) die_of_prefix(path, taken, prefix, in_file, missing);
    for (int i = 0; i < in_file.n; i++)
        if (strstr(in_file.list[i], "_orig_mod."))
            die(SAVE_WITH "k.replace(\"_orig_mod.\", \"\")" OF_STATE "}, \"w.safetensors\")",
                "%s: tensor \"%s\" is missing; there is \"%s\"%s", path, missing, in_file.list[i],
                whose("_orig_mod."));
    const char *all = wanted.list[0];
    for (int i = 1; i < wanted.n && i < 3; i++) all = xprintf("%s, %s", all, wanted.list[i]);
    die(xprintf("the file is of another network, or has other names: those of this one are %s%s",
                all, wanted.n > 3 ? xprintf(" .. %s", wanted.list[wanted.n - 1]) : ""),
        "%s: tensor \"%s\" is missing%s", path, missing,
        in_file.n == 0
            ? "; there is no tensor in it"
            : xprintf("; the first of %d in the file is \"%s\"", in_file.n, in_file.list[0]));
}
