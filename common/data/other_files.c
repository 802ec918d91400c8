// other_files.c: recognises other programs' files by their first bytes, and other programs' names
// of parameters by comparing them.
#include "other_files.h"
#include "common/base/error.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// ---- formats ---------------------------------------------------------------------------------

#define FROM_PYTORCH "in PyTorch: safetensors.torch.save_file(net.state_dict(), \"w.safetensors\")"
#define FROM_NUMPY                                                                                 \
    "in Python: safetensors.numpy.save_file(dict(numpy.load(\"w.npz\")), \"w.safetensors\")"
#define FETCH    "what was fetched is not the file itself: fetch it again, by its own address"
#define UNPACK   "unpack it first"
#define ORIGINAL "give the original file"

// A file of each kind begins with certain bytes, and has certain others soon after them.
// clang-format off
static const struct {
    const char *begins, *has;
    OtherFormat format;
} formats[] = {
    {"PK\3\4", ".npy", {"a zip archive of NumPy arrays", FROM_NUMPY, UNPACK}},
    {"PK\3\4", "", {"a zip archive, as torch.save() writes", FROM_PYTORCH, UNPACK}},
    {"\x93NUMPY", "", {"a NumPy array", FROM_PYTORCH, ORIGINAL}},
    {"\x89HDF", "", {"HDF5, as Keras writes", FROM_PYTORCH, ORIGINAL}},
    {"GGUF", "", {"GGUF", FROM_PYTORCH, ORIGINAL}},
    {"\x1f\x8b", "", {"packed by gzip", UNPACK, "it was packed twice: unpack it once"}},
    {"BZh", "", {"packed by bzip2", UNPACK, UNPACK}},
    {"\xfd" "7zXZ", "", {"packed by xz", UNPACK, UNPACK}},
    {"\x28\xb5\x2f\xfd", "", {"packed by zstd", UNPACK, UNPACK}},
    {"7z\xbc\xaf", "", {"packed by 7-zip", UNPACK, UNPACK}},
    {"Rar!", "", {"packed by RAR", UNPACK, UNPACK}},
    {"version https://git-lfs", "",
     {"a pointer that git-lfs left in the file's place", "git lfs pull", "git lfs pull"}},
    {"<", "", {"a web page", FETCH, FETCH}},
    {"{", "", {"JSON text", "an index of several files? Save all in one: " FROM_PYTORCH, FETCH}},
};
// clang-format on

static bool is_text(const char *first, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isprint((unsigned char)first[i]) && !isspace((unsigned char)first[i])) return false;
    return n > 0;
}

OtherFormat other_format(const char *first, size_t n) {
    // A pickle begins with its protocol, 2 to 5.
    if (n > 2 && first[0] == '\x80' && first[1] >= 2 && first[1] <= 5)
        return (OtherFormat){"a pickle, as old versions of torch.save() write", FROM_PYTORCH,
                             ORIGINAL};
    size_t blanks = 0; // web pages may begin with them
    while (blanks < n && isspace((unsigned char)first[blanks])) blanks++;
    const char *at = first + blanks;
    n -= blanks;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        size_t length = strlen(formats[i].begins);
        if (n >= length && memcmp(at, formats[i].begins, length) == 0 &&
            memmem(at, n, formats[i].has, strlen(formats[i].has)))
            return formats[i].format;
    }
    if (!is_text(at, n)) return (OtherFormat){0};
    size_t line = 0;
    while (line < n && at[line] != '\r' && at[line] != '\n') line++;
    return (OtherFormat){xprintf("text that begins '%.*s'", (int)line, at), FETCH, FETCH};
}

// ---- names -----------------------------------------------------------------------------------

static bool begins(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool all_begin(Names names, const char *prefix) {
    int i = 0;
    while (i < names.n && begins(names.list[i], prefix)) i++;
    return names.n > 0 && i == names.n;
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

// The shortest prefix under which the file has all missing names; NULL if there is none.
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
                                    Names in_file, Names wanted, const char *missing) {
    const char *whole = xprintf("%s%s", taken, prefix);
    bool all = all_begin(in_file, prefix), all_wanted = true;
    int with = 0;
    for (int i = 0; i < in_file.n; i++) with += begins(in_file.list[i], prefix);
    for (int i = 0; i < wanted.n; i++) all_wanted &= has(in_file, prefix, wanted.list[i]);
    // The hint drops other names, unless some of them are wanted.
    const char *only = all || !all_wanted ? "" : xprintf(" if k.startswith(\"%s\")", whole);
    const char *hint =
        xprintf(SAVE_WITH "k.removeprefix(\"%s\")" OF_STATE "%s}, \"w.safetensors\")", whole, only);
    if (all)
        die(hint, "%s: all names begin with \"%s\", those of this network do not", path, whole);
    die(hint, "%s: tensor \"%s\" is missing; there is \"%s%s\"%s, as %d of %d names begin", path,
        missing, whole, missing, whose(whole), with, in_file.n);
}

void die_of_names(const char *path, const char *taken, Names in_file, Names wanted) {
    int m = 0;
    while (m + 1 < wanted.n && has(in_file, "", wanted.list[m])) m++;
    const char *missing = wanted.list[m];
    const char *prefix = prefix_of_missing(in_file, wanted, missing);
    if (prefix) die_of_prefix(path, taken, prefix, in_file, wanted, missing);
    for (int i = 0; i < in_file.n; i++)
        if (strstr(in_file.list[i], "_orig_mod."))
            die(SAVE_WITH "k.replace(\"_orig_mod.\", \"\").replace(\"module.\", \"\")" OF_STATE
                          "}, \"w.safetensors\")",
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
