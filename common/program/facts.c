// facts.c: runs each group of cases in a separate process, and appends what they record to a file.
// Its lines are fields with tabs between them:
//
//     part   POINTS  WHAT             of all parts; then for each group:
//     group  NAME
//     case   TEXT
//     =      PART  GIVEN  TOLERANCE  NAME  VALUE       GIVEN: see PART_IF(), a bit for each part
//     through                         the group's function has returned
//     ended  HOW                      its process has ended
#include "facts.h"
#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/device/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file = -1;
static const char *path;
static uint64_t state; // of draw()
static char **names;   // of the facts of this case
static size_t num_names;

// splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014)
long draw(long least, long most) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return least + (long)((z ^ z >> 31) % (uint64_t)(most - least + 1));
}

// ---- lines -------------------------------------------------------------------------------------

// One write() for each line, so that a crash loses no line that was written, and the lines of two
// processes do not mix.
__attribute__((format(printf, 1, 2))) static void write_line(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *line = xvprintf(format, args);
    va_end(args);
    errno = ENOSPC; // if only a part can be written, write() gives no reason
    if (write(file, line, strlen(line)) != (ssize_t)strlen(line))
        die("--facts: a file where there is room", "%s: cannot be written: %s", path,
            strerror(errno));
    free(line);
}

void begin_case(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; i < num_names; i++) free(names[i]);
    num_names = 0;
    write_line("case\t%s\n", text);
}

static void write_fact(int part, const char *tolerance, const char *value, const char *name,
                       va_list args) {
    char text[128];
    vsnprintf(text, sizeof text, name, args);
    for (size_t i = 0; i < num_names; i++)
        CHECK(strcmp(names[i], text) != 0, "a fact's name is used once in a case");
    names = xgrow(names, num_names + 1, sizeof *names);
    names[num_names++] = xstrdup(text);
    write_line("=\t%d\t%d\t%s\t%s\t%s\n", part % 128, part / 128, tolerance, text, value);
}

#define FACT(tolerance, value)                                                                     \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, name);                                                                      \
        write_fact(part, (tolerance), (value), name, args);                                        \
        va_end(args);                                                                              \
    } while (0)

// ---- values ------------------------------------------------------------------------------------

typedef struct Text {
    char text[32];
} Text;
static Text real_text(double value, int digits) {
    Text t;
    snprintf(t.text, sizeof t.text, "%.*g", digits, value);
    return t;
}

void record_int(int part, long value, const char *name, ...) {
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    FACT("0", text);
}
void record_real(int part, double value, double tolerance, const char *name, ...) {
    FACT(real_text(tolerance, 6).text, real_text(value, tolerance > 0 ? 9 : 17).text);
}
void record_at_most(int part, double value, const char *name, ...) {
    FACT("<=", real_text(value, 17).text);
}

void record_text(int part, const char *value, const char *name, ...) {
    char *copy = xstrdup(value);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    FACT("0", copy);
    free(copy);
}

enum { MOST_TOLD = 64, TOLD_OF_MANY = 8 };

// FNV-1a
static uint64_t hash_of(const void *values, size_t size) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)values)[i]) * 1099511628211u;
    return hash;
}

// "1 2 .. 8 9 #hash", of floats or of ints; the other is NULL.
static char *list_text(const float *floats, const int *ints, size_t n, bool all) {
    bool shortened = n > MOST_TOLD && !all;
    char *text = xmalloc(24 * (shortened ? MOST_TOLD : n) + 64), *to = text;
    *to = '\0';
    for (size_t i = 0; i < n; i++) {
        if (shortened && i == TOLD_OF_MANY) {
            to += sprintf(to, " ..");
            i = n - TOLD_OF_MANY;
        }
        if (i > 0) *to++ = ' ';
        to += floats ? sprintf(to, "%.9g", (double)floats[i]) : sprintf(to, "%d", ints[i]);
    }
    const void *values = floats ? (const void *)floats : ints;
    if (shortened) sprintf(to, " #%016llx", (unsigned long long)hash_of(values, n * sizeof *ints));
    return text;
}

void record_floats(int part, const float *values, size_t n, double tolerance, const char *name,
                   ...) {
    char *text = list_text(values, NULL, n, tolerance > 0);
    FACT(real_text(tolerance, 6).text, text);
    free(text);
}
void record_ints(int part, const int *values, size_t n, const char *name, ...) {
    char *text = list_text(NULL, values, n, false);
    FACT("0", text);
    free(text);
}

// ---- groups ------------------------------------------------------------------------------------

// A question with a command has no cases.c, and neither of these.
extern const Part parts[] __attribute__((weak));
extern const Group groups[] __attribute__((weak));

static void open_facts(int flags) {
    file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666);
    if (file < 0) die("a file to write facts to", "%s: cannot be opened", path);
}

const char *facts_pass_on(void) {
    static char text[4200];
    snprintf(text, sizeof text, "%llu %s", (unsigned long long)state, path);
    return text;
}
void facts_go_on(const char *passed_on) {
    char *end;
    state = strtoull(passed_on, &end, 10);
    path = end + 1;
    open_facts(0);
}

static void run(const void *group) {
    devices_init(BACKEND_CPU, 2);
    ((const Group *)group)->cases();
    write_line("through\n");
}

// Whether a process is late: it has computed for that long, or done next to nothing for that long.
// On a busy machine a right answer takes its time, so that does not count by itself.
static bool is_late(Process child, int seconds, double began) {
    static double since, used_then;
    double now = seconds_now(), used = process_seconds(child);
    if (began > since) since = began, used_then = 0;
    if (used >= seconds || now - began >= 30 * seconds) return true;
    if (now - since < seconds) return false;
    bool idle = used - used_then < 0.005 * seconds;
    since = now, used_then = used;
    return idle;
}

// Waits for the process of a group, and records how it ended.
static void wait_for(Process child, int seconds) {
    double began = seconds_now();
    bool late = false;
    int status;
    while (!late && !process_has_ended(child, &status)) {
        late = is_late(child, seconds, began);
        sleep_seconds(2e-3);
    }
    process_kill(child); // and what it started
    if (!late && status == STATUS_MACHINE) exit(status);
    if (late)
        write_line("ended\tno end after %d seconds\n", seconds);
    else if (status < 0)
        write_line("ended\tcrash: %s\n", strsignal(-status));
    else
        write_line("ended\texit with status %d\n", status);
}

int facts_main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    if (argc != 4) die_usage("--facts FILE SEED", "make exercise-NN-N calls it");
    if (!parts)
        die_usage("make exercise-NN-N runs it", "there are no facts: nothing is checked here");
    path = argv[2];
    open_facts(O_CREAT | O_TRUNC);
    for (const Part *p = parts; p->what; p++) write_line("part\t%d\t%s\n", p->points, p->what);
    for (const Group *g = groups; g->cases; g++) {
        state = strtoull(argv[3], NULL, 10) * 1000003u + (uint64_t)(g - groups);
        write_line("group\t%s\n", g->name);
        wait_for(process_fork(run, g), g->seconds ? g->seconds : 10);
    }
    return EXIT_SUCCESS;
}
