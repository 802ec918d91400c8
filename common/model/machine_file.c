// machine_file.c: turns a text of lines "field value unit" into a machine, or ends the program with
// a message that says what is wrong and where. A table lists the fields, their units and where they
// go.
#include "machine.h"
#include "common/base/error.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_LINE = 200,
    LONGEST_FILE = 1 << 16,
    MOST_WORDS = LONGEST_LINE / 2,
    MOST_DEVICES = 1024, // of a host
    MOST_IN_MESH = 16,
};

// ---- units -----------------------------------------------------------------------------------

// A PART is at most 100 %; a SPEEDUP may be above.
typedef enum { NONE, COUNT, COUNT_OR_0, BYTES, RATE, FLOPS, TIME, PART, SPEEDUP } Quantity;

// A number is multiplied by the first factor and divided by the second, so that 3 us becomes the
// double that is nearest to 3e-6.
typedef struct Unit {
    const char *name;
    Quantity quantity;
    double times, by;
} Unit;

static const Unit units[] = {
    {"B", BYTES, 1, 1},         {"kB", BYTES, 1e3, 1},       {"MB", BYTES, 1e6, 1},
    {"GB", BYTES, 1e9, 1},      {"TB", BYTES, 1e12, 1},      {"B/s", RATE, 1, 1},
    {"MB/s", RATE, 1e6, 1},     {"GB/s", RATE, 1e9, 1},      {"TB/s", RATE, 1e12, 1},
    {"Mb/s", RATE, 1e6, 8},     {"Gb/s", RATE, 1e9, 8},      {"FLOP/s", FLOPS, 1, 1},
    {"GFLOP/s", FLOPS, 1e9, 1}, {"TFLOP/s", FLOPS, 1e12, 1}, {"s", TIME, 1, 1},
    {"ms", TIME, 1, 1e3},       {"us", TIME, 1, 1e6},        {"ns", TIME, 1, 1e9},
    {"%", PART, 1, 100},        {"%", SPEEDUP, 1, 100},
};
enum { NUM_UNITS = sizeof units / sizeof units[0] };

// What a figure may be. Nothing real is slower or smaller than this, so a lower figure or its unit
// is a mistake, and times would become infinite. But figures may be so high that a part is as good
// as free, because that shows what the rest takes.
static const struct {
    double least, most;
    const char *text;
} ranges[] = {
    [COUNT] = {1, MOST_DEVICES, ""},
    [COUNT_OR_0] = {0, MOST_DEVICES, ""},
    [BYTES] = {1e6, 1e15, "1 MB to 1000 TB"},
    [RATE] = {1e3, 1e27, "1000 B/s to 1e15 TB/s"},
    [FLOPS] = {1e6, 1e24, "0.001 GFLOP/s to 1e12 TFLOP/s"},
    [TIME] = {0, 10, "0 s to 10 s"},
    [PART] = {1e-10, 1, "1e-8 % to 100 %"},
    [SPEEDUP] = {1e-10, 100, "1e-8 % to 10000 %"},
};

static const Unit *find_unit(Quantity quantity, const char *name) {
    for (const Unit *unit = units; unit < units + NUM_UNITS; unit++)
        if (unit->quantity == quantity && strcmp(unit->name, name) == 0) return unit;
    return NULL;
}

static bool is_possible(Quantity quantity, double value) {
    return value >= ranges[quantity].least && value <= ranges[quantity].most;
}

double machine_bytes(const char *text) {
    char *end;
    double number = strtod(text, &end);
    const Unit *unit = find_unit(BYTES, end + strspn(end, " "));
    if (!unit || !is_possible(BYTES, number * unit->times)) return NAN;
    return number * unit->times;
}

// Returns the words with one more at the end, "a, b, c", and frees the old string.
static char *append(char *words, const char *between, const char *word) {
    char *longer = xprintf("%s%s%s", words, *words ? between : "", word);
    free(words);
    return longer;
}

// ---- fields ----------------------------------------------------------------------------------

// A number in a line, and the offset in Machine where it goes. There is an int for a COUNT, and a
// double for everything else. Only the last value of a line may be missing.
typedef struct Value {
    Quantity quantity;
    size_t place;
    bool may_be_missing;
} Value;

enum { MOST_VALUES = 3 }; // in a line

// DEPENDS: check_whole() decides. A KIND is not a field, but the word after `link`.
typedef enum { NEEDED, OPTIONAL, DEPENDS, MANY, KIND } Need;

typedef struct Field {
    const char *name;
    Need need;
    const char *example;
    Value values[MOST_VALUES];
} Field;

// clang-format off
#define IS(quantity, member) {quantity, offsetof(Machine, member), false}
#define LINK(member)         {IS(RATE, member.bandwidth), IS(TIME, member.latency)}
// In fp32, and perhaps in tf32.
#define EFFICIENCY(quantity, kind)                                                                 \
    {IS(quantity, efficiency[kind]), {quantity, offsetof(Machine, tf32_efficiency[kind]), true}}
// Forward, backward to the input, and to the parameters.
#define PASSES(form)                                                                               \
    {IS(SPEEDUP, convolution[form][PASS_FORWARD]), IS(SPEEDUP, convolution[form][PASS_INPUT]),     \
     IS(SPEEDUP, convolution[form][PASS_PARAMS])}

// (`about`, `link` and `pair` have their own functions.)
static const Field fields[] = {
    {"about", NEEDED, "about eight GPUs on a switch", {{0}}},
    {"devices", NEEDED, "devices 8", {IS(COUNT, devices)}},
    {"memory", NEEDED, "memory 40 GB", {IS(BYTES, memory)}},
    {"fp32", NEEDED, "fp32 19.5 TFLOP/s", {IS(FLOPS, fp32)}},
    {"tf32", OPTIONAL, "tf32 156 TFLOP/s", {IS(FLOPS, tf32)}},
    {"fp16", OPTIONAL, "fp16 312 TFLOP/s 87 %", {IS(FLOPS, fp16), IS(PART, fp16_efficiency)}},
    {"multiprocessors", OPTIONAL, "multiprocessors 108", {IS(COUNT, multiprocessors)}},
    {"product", NEEDED, "product 80 %", EFFICIENCY(PART, COST_PRODUCT)},
    {"convolution", NEEDED, "convolution 60 %", EFFICIENCY(SPEEDUP, COST_CONVOLUTION)},
    {"convolution_3x3", OPTIONAL, "convolution_3x3 70 % 70 % 50 %", PASSES(FORM_3X3)},
    {"convolution_large", OPTIONAL, "convolution_large 70 % 70 % 50 %", PASSES(FORM_LARGE)},
    {"convolution_plain", OPTIONAL, "convolution_plain 40 % 40 % 40 %", PASSES(FORM_PLAIN)},
    {"convolution_thin", OPTIONAL, "convolution_thin 10 % 10 % 10 %", PASSES(FORM_THIN)},
    {"elements", NEEDED, "elements 90 %", {IS(PART, efficiency[COST_ELEMENTS])}},
    {"memory_bandwidth", NEEDED, "memory_bandwidth 1555 GB/s", {IS(RATE, memory_bandwidth)}},
    {"kernel", NEEDED, "kernel 2 us", {IS(TIME, kernel)}},
    {"launch", NEEDED, "launch 4 us", {IS(TIME, launch)}},
    {"event", OPTIONAL, "event 0.5 us", {IS(TIME, event)}},
    {"graph_launch", NEEDED, "graph_launch 6 us", {IS(TIME, graph_launch)}},
    {"graph_kernel", NEEDED, "graph_kernel 1 us", {IS(TIME, graph_kernel)}},
    {"framework", NEEDED, "framework 10 us", {IS(TIME, framework)}},
    {"link", DEPENDS, "link switch 300 GB/s 3 us", {{0}}},
    {"switch", KIND, "link switch 300 GB/s 3 us", LINK(link)},
    {"tree", KIND, "link tree", {{0}}},
    {"host", KIND, "link host", {{0}}},
    {"mesh", KIND, "link mesh 3 us", {IS(TIME, link.latency)}}, // kinds: in the order of LinkKind
    {"pair", MANY, "pair 0 3 50 GB/s", {{0}}},
    {"host_link", NEEDED, "host_link 22 GB/s 5 us", LINK(host_link)},
    {"devices_per_root", DEPENDS, "devices_per_root 2", {IS(COUNT, devices_per_root)}},
    {"root_bandwidth", DEPENDS, "root_bandwidth 22 GB/s", {IS(RATE, root_bandwidth)}},
    {"cards", OPTIONAL, "cards 8", {IS(COUNT_OR_0, cards)}},
    {"network", DEPENDS, "network 25 GB/s 10 us", LINK(network)},
};
// clang-format on
enum { NUM_FIELDS = sizeof fields / sizeof fields[0] };

// The place in the table of a field, or of a kind of link; NUM_FIELDS if there is none.
static int find(const char *name, bool is_kind) {
    int id = 0;
    for (; id < NUM_FIELDS; id++)
        if ((fields[id].need == KIND) == is_kind && strcmp(fields[id].name, name) == 0) break;
    return id;
}

// ---- messages: where in the text, and what is wrong there -------------------------------------

typedef struct Reader {
    Machine *machine;
    const char *file;
    int line;
    const Field *field;      // in this line, once it is known
    const char *example;     // how its line should look
    char *words[MOST_WORDS]; // in this line, without its comment
    int num_words, used;
    int line_of[NUM_FIELDS]; // the last line with this field; 0: none
} Reader;

static _Noreturn __attribute__((format(printf, 2, 3))) void wrong(const Reader *reader,
                                                                  const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *what = xvprintf(format, args);
    va_end(args);
    die(xprintf("such a line looks like this: %s", reader->example), "%s:%d: %s: %s", reader->file,
        reader->line, reader->field->name, what);
}

static void set_field(Reader *reader, int id) {
    reader->field = &fields[id];
    reader->example = fields[id].example;
}

static int line_of(const Reader *reader, const char *name) {
    return reader->line_of[find(name, false)];
}

// Moves the reader back to an earlier line, for a message about that one.
static Reader *back_at(Reader *reader, const char *name) {
    set_field(reader, find(name, false));
    reader->line = line_of(reader, name);
    return reader;
}

// ---- numbers ---------------------------------------------------------------------------------

static const char *next_word(Reader *reader, const char *expected) {
    if (reader->used == reader->num_words)
        wrong(reader, "expected %s, and the line ends", expected);
    return reader->words[reader->used++];
}

// Plain decimals only: no nan, no inf, no hexadecimal.
static double read_number(Reader *reader) {
    const char *word = next_word(reader, "a number");
    char *end;
    double number = strtod(word, &end);
    if (end == word || word[strspn(word, "0123456789.eE+-")] != '\0' || !isfinite(number))
        wrong(reader, "expected a number, not '%s'", word);
    if (*end) wrong(reader, "expected a number and nothing after it, not '%s'", word);
    if (number < 0) wrong(reader, "expected a number that is not negative, not '%s'", word);
    return number;
}

static int read_count(Reader *reader, int least, int most) {
    double number = read_number(reader);
    if (number != floor(number) || number < least || number > most)
        wrong(reader, "expected a whole number from %d to %d, not '%s'", least, most,
              reader->words[reader->used - 1]);
    return (int)number;
}

static double read_quantity(Reader *reader, Quantity quantity) {
    double number = read_number(reader);
    const char *word = reader->words[reader->used - 1];
    char *names = xstrdup("");
    for (int i = 0; i < NUM_UNITS; i++)
        if (units[i].quantity == quantity) names = append(names, ", ", units[i].name);
    const char *unit_word = next_word(reader, names);
    const Unit *unit = find_unit(quantity, unit_word);
    if (!unit) wrong(reader, "expected one of the units %s, not '%s'", names, unit_word);
    free(names);
    double value = number * unit->times / unit->by;
    if (!is_possible(quantity, value))
        wrong(reader, "expected %s, not '%s %s'", ranges[quantity].text, word, unit_word);
    return value;
}

static void read_values(Reader *reader, const Value values[MOST_VALUES]) {
    for (const Value *v = values; v < values + MOST_VALUES && v->quantity != NONE; v++) {
        void *place = (char *)reader->machine + v->place;
        if (v->may_be_missing && reader->used == reader->num_words) continue;
        if (v->quantity == COUNT || v->quantity == COUNT_OR_0)
            *(int *)place = read_count(reader, (int)ranges[v->quantity].least, MOST_DEVICES);
        else
            *(double *)place = read_quantity(reader, v->quantity);
    }
}

// ---- lines -----------------------------------------------------------------------------------

static void read_about(Reader *reader) {
    char *about = xstrdup(next_word(reader, "some words"));
    while (reader->used < reader->num_words)
        about = append(about, " ", reader->words[reader->used++]);
    reader->machine->about = about;
}

static void read_link(Reader *reader) {
    static const char kinds[] = "switch, tree, host, mesh"; // in the order of LinkKind
    const char *word = next_word(reader, kinds);
    int id = find(word, true);
    if (id == NUM_FIELDS) wrong(reader, "expected one of %s, not '%s'", kinds, word);
    reader->machine->links = (LinkKind)(id - find("switch", true));
    reader->example = fields[id].example;
    read_values(reader, fields[id].values);
}

static void read_pair(Reader *reader) {
    Machine *machine = reader->machine;
    if (machine->devices == 0) wrong(reader, "expected the line 'devices' before this one");
    int most = machine->devices < MOST_IN_MESH ? machine->devices : MOST_IN_MESH;
    int from = read_count(reader, 0, most - 1), to = read_count(reader, 0, most - 1);
    double bandwidth = read_quantity(reader, RATE);
    if (from == to) wrong(reader, "expected two devices, not %d twice", from);
    if (!machine->mesh) machine->mesh = xcalloc(MOST_IN_MESH, sizeof *machine->mesh);
    if (machine->mesh[from][to] > 0) wrong(reader, "the pair %d %d stands there twice", from, to);
    machine->mesh[from][to] = bandwidth;
    machine->mesh[to][from] = bandwidth;
    // The fastest pair stands for all where one figure is asked for.
    machine->link.bandwidth = fmax(machine->link.bandwidth, bandwidth);
}

// die()s if a byte is not text. Only comments may have letters beyond ASCII.
static void check_bytes(const Reader *reader, const char *line) {
    bool in_comment = false;
    for (const char *at = line; *at; at++) {
        in_comment = in_comment || *at == '#';
        unsigned char byte = (unsigned char)*at;
        bool is_control = (byte < ' ' && byte != '\t' && byte != '\r') || byte == 0x7f;
        if (is_control || (byte > 0x7f && !in_comment))
            die("a machine is a text file of lines like: memory 40 GB   # where that is from",
                "%s:%d: expected text, not the byte 0x%02x", reader->file, reader->line, byte);
    }
}

static _Noreturn void no_field(const Reader *reader, const char *word) {
    char *names = xstrdup("");
    for (int id = 0; id < NUM_FIELDS; id++)
        if (fields[id].need != KIND) names = append(names, ", ", fields[id].name);
    die(xprintf("the fields are %s", names), "%s:%d: there is no field '%s'", reader->file,
        reader->line, word);
}

static void read_line(Reader *reader, char *line) {
    check_bytes(reader, line);
    line[strcspn(line, "#")] = '\0';
    if (strlen(line) > LONGEST_LINE)
        die("only comments may be longer", "%s:%d: the line has %zu characters, %d are expected",
            reader->file, reader->line, strlen(line), LONGEST_LINE);
    reader->num_words = 0;
    for (char *word; (word = strsep(&line, " \t\r"));)
        if (*word) reader->words[reader->num_words++] = word;
    if (reader->num_words == 0) return;

    const char *name = reader->words[0];
    int id = find(name, false);
    if (id == NUM_FIELDS) no_field(reader, name);
    set_field(reader, id);
    if (reader->line_of[id] && fields[id].need != MANY)
        wrong(reader, "it stands in line %d, too", reader->line_of[id]);
    reader->line_of[id] = reader->line;

    reader->used = 1;
    if (strcmp(name, "about") == 0)
        read_about(reader);
    else if (strcmp(name, "link") == 0)
        read_link(reader);
    else if (strcmp(name, "pair") == 0)
        read_pair(reader);
    else
        read_values(reader, reader->field->values);
    if (reader->used < reader->num_words)
        wrong(reader, "expected the end of the line, not '%s'", reader->words[reader->used]);
}

// ---- the whole ---------------------------------------------------------------------------------

static void need_field(const Reader *reader, const char *name, const char *why) {
    const Field *field = &fields[find(name, false)];
    if (!line_of(reader, name))
        die(xprintf("add a line like this: %s", field->example),
            "%s: the field '%s' is missing%s%s", reader->file, name, *why ? ": " : "", why);
}

// Checks the fields that depend on others, and gives a value to those that are missing.
static void check_whole(Reader *reader) {
    Machine *machine = reader->machine;
    const char *by_pcie = "devices reach each other by PCIe";
    for (int id = 0; id < NUM_FIELDS; id++)
        if (fields[id].need == NEEDED) need_field(reader, fields[id].name, "");

    if (machine->devices > 1) need_field(reader, "link", "there are several devices");
    if (!line_of(reader, "link")) machine->links = LINKS_TREE; // a single device
    if (machine->links != LINKS_MESH && line_of(reader, "pair"))
        wrong(back_at(reader, "pair"), "expected 'link mesh', too");
    if (machine->links == LINKS_MESH) {
        if (machine->devices > MOST_IN_MESH)
            wrong(back_at(reader, "devices"), "expected at most %d with 'link mesh'", MOST_IN_MESH);
        need_field(reader, "pair", "a mesh has pairs of devices");
    }

    if (machine->links != LINKS_SWITCH && machine->devices > 1) {
        need_field(reader, "devices_per_root", by_pcie);
        need_field(reader, "root_bandwidth", by_pcie);
    }
    if (!line_of(reader, "devices_per_root")) machine->devices_per_root = 1;
    if (!line_of(reader, "root_bandwidth")) machine->root_bandwidth = machine->host_link.bandwidth;
    if (machine->devices_per_root > machine->devices)
        wrong(back_at(reader, "devices_per_root"), "expected at most the %d devices of a host",
              machine->devices);
    if (machine->links == LINKS_TREE || machine->links == LINKS_HOST)
        machine->link = machine->host_link; // there is no other

    if (machine->cards > 0) need_field(reader, "network", "there are network cards");
    if (machine->cards == 0 && line_of(reader, "network"))
        wrong(back_at(reader, "network"),
              "expected the number of network cards in a line 'cards', too");
    if (machine->tf32 == 0) machine->tf32 = machine->fp32;
    for (int form = 0; form < NUM_FORMS; form++)
        for (int pass = 0; pass < NUM_PASSES; pass++)
            if (machine->convolution[form][pass] == 0)
                machine->convolution[form][pass] = machine->efficiency[COST_CONVOLUTION];
}

// "folder/mine.machine" gives the name "mine", shortened if it is too long. CSV files, lists of
// machines and titles show the name.
static void set_name(Machine *machine, const char *file) {
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    int length = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    for (int i = 0; i < length; i++)
        if ((unsigned char)name[i] <= ' ' || strchr(",;\"\x7f", name[i]))
            die("rename the file: its name is that of the machine, in tables and CSV files",
                "%s: expected a name without blanks, commas and quotation marks", file);
    snprintf(machine->name, sizeof machine->name, "%.*s", length, name);
}

// All machines, the latest first. They live as long as the program.
static struct Kept {
    Machine machine;
    char *found_as; // the name given to machine_find(); NULL: it came from machine_parse() alone
    struct Kept *next;
} * kept;

const Machine *machine_parse(const char *name, const char *text) {
    struct Kept *entry = xcalloc(1, sizeof *entry);
    entry->next = kept;
    kept = entry;
    set_name(&entry->machine, name);
    Reader reader = {.machine = &entry->machine, .file = name};
    char *copy = xstrdup(text), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        reader.line++;
        read_line(&reader, line);
    }
    if (reader.field == NULL)
        die("a machine is a text file of lines like: memory 40 GB", "%s: there is nothing in it",
            name);
    check_whole(&reader);
    free(copy);
    return &entry->machine;
}

// ---- where texts come from ---------------------------------------------------------------------

static _Noreturn void die_reading(const char *path) {
    die("give the path of a text file that describes a machine, or a name that --machine list "
        "shows",
        "%s: cannot read: %s", path, strerror(errno));
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "re");
    if (!file) die_reading(path);
    char *text = xmalloc(LONGEST_FILE + 1);
    size_t length = fread(text, 1, LONGEST_FILE + 1, file);
    if (ferror(file)) die_reading(path);
    fclose(file);
    if (length > LONGEST_FILE)
        die("is this the file that you meant?", "%s: longer than the %d bytes of a machine", path,
            LONGEST_FILE);
    text[length] = '\0';
    if (strlen(text) < length)
        die("a machine is a text file of lines like: memory 40 GB",
            "%s: expected text, not the byte 0x00", path);
    return text;
}

static bool is_path(const char *name) { return strpbrk(name, "/.") != NULL; }

const char *machine_text(const char *name) {
    if (is_path(name))
        die_usage(xprintf("cat '%s' shows it, --machine '%s' tells its time", name, name),
                  "--machine print: is for machines that are built in, not for a file: '%s'", name);
    char *names = xstrdup("");
    for (const MachineFile *file = machine_files; file->name; file++) {
        names = append(names, ", ", file->name);
        if (strcmp(file->name, name) != 0) continue;
        free(names);
        return file->text;
    }
    die_usage(xprintf("the machines are %s; or give the path of a file, with a '/' or a '.' in it",
                      names),
              "there is no machine '%s'", name);
}

const Machine *machine_find(const char *name) {
    for (const struct Kept *entry = kept; entry; entry = entry->next)
        if (entry->found_as && strcmp(entry->found_as, name) == 0) return &entry->machine;
    char *text = is_path(name) ? read_text(name) : NULL;
    const Machine *machine = machine_parse(name, text ? text : machine_text(name));
    free(text);
    kept->found_as = xstrdup(name); // the machine that was just parsed
    return machine;
}
