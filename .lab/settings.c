// settings.c: see settings.h. One table has all flags; each is the setting of make of that name.
#include "settings.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "exercise_list.h"

#include <ctype.h>
#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>

typedef enum { TEXT, SWITCH, NUMBER } Kind;

typedef struct Setting {
    const char *name;
    Kind kind;
    size_t at;        // in Settings
    long least, most; // of a NUMBER
    const char *hint; // if it is wrong
} Setting;

static const Setting table[] = {
    {"labs", TEXT, offsetof(Settings, labs), 0, 0, NULL},
    {"json", TEXT, offsetof(Settings, json), 0, 0, NULL},
    {"csv", TEXT, offsetof(Settings, csv), 0, 0, NULL},
    {"gradescope", TEXT, offsetof(Settings, gradescope), 0, 0, NULL},
    {"class", SWITCH, offsetof(Settings, class), 0, 0, NULL},
    {"trusted", SWITCH, offsetof(Settings, trusted), 0, 0, NULL},
    {"strict", SWITCH, offsetof(Settings, strict), 0, 0, NULL},
    {"jobs", NUMBER, offsetof(Settings, jobs), 1, 256, "JOBS=2: two are graded at a time"},
    {"part", NUMBER, offsetof(Settings, part), 1, MOST_PARTS, "PART=1: the first"},
    {"seconds", NUMBER, offsetof(Settings, seconds), 1, 3600,
     "SECONDS=60: what an exercise may take, 1 to 3600"},
};
enum { NUM_SETTINGS = sizeof table / sizeof *table };

static int read_number(const Setting *setting, const char *text) {
    long number;
    if (read_whole(text, setting->least, setting->most, &number)) return (int)number;
    char *name = xstrdup(setting->name);
    for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
    die_usage(setting->hint, "wrong %s: '%s'", name, text);
}

static void store(Settings *s, const Setting *setting, const char *text) {
    char *value = (char *)s + setting->at;
    if (setting->kind == TEXT)
        *(const char **)(void *)value = text;
    else if (setting->kind == SWITCH)
        *(bool *)(void *)value = true;
    else
        *(int *)(void *)value = read_number(setting, text);
}

Settings settings_read(int argc, char *argv[]) {
    struct option options[NUM_SETTINGS + 1] = {0};
    Settings s = {.labs = "", .jobs = 1, .seconds = 60};
    for (int i = 0; i < NUM_SETTINGS; i++)
        options[i] = (struct option){
            table[i].name, table[i].kind == SWITCH ? no_argument : required_argument, NULL, 1};
    for (int which, c; (c = getopt_long(argc, argv, "", options, &which)) != -1;) {
        if (c != 1) exit(EXIT_USAGE);
        store(&s, &table[which], optarg);
    }
    if (optind >= argc) die_usage("make grade calls it", "no BUILD");
    s.build = argv[optind++];
    s.from = optind < argc ? argv[optind++] : NULL;
    if (optind < argc)
        die_usage("SUBMISSION=FILE is one hand-in, CLASS=FOLDER many: give one of the two",
                  "more than one to grade: %s and %s", s.from, argv[optind]);
    if (s.class && !s.from) die_usage("make grade CLASS=FOLDER", "no folder of hand-ins");
    if (s.class && s.gradescope)
        die_usage("GRADESCOPE= goes with SUBMISSION=; of a class there are CSV= and JSON=",
                  "results for Gradescope are those of one hand-in, and this is a class");
    return s;
}
