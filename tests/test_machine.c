// test_machine.c: machines from text files: those that are built in, what a mistake in a file says,
// how long kernels take, the ways through a machine and the ports that copies would share.
#include "common/base/error.h"
#include "common/model/machine.h"
#include "cases.h"

// A machine in which every figure is another one, so that none can stand for another.
static const char whole[] =
    "about one of the test\ndevices 8\nmemory 40 GB\n"                        // 1 to 3
    "fp32 20 TFLOP/s\ntf32 160 TFLOP/s\nproduct 80 %\nconvolution 60 %\n"     // 4 to 7
    "elements 90 %\nmemory_bandwidth 1500 GB/s\nkernel 2 us\nlaunch 4 us\n"   // 8 to 11
    "graph_launch 6 us\ngraph_kernel 500 ns\nframework 0.01 ms\n"             // 12 to 14
    "link switch 300 GB/s 3 us\nhost_link 24 GB/s 5 us\ndevices_per_root 2\n" // 15 to 17
    "root_bandwidth 22 GB/s\ncards 4\nnetwork 200 Gb/s 14 us   # a comment\n" // 18 to 20
    "fp16 310 TFLOP/s 85 %";                                                  // 21

// The text with a line in place of the one that begins with `field`.
static char *changed(const char *text, const char *field, const char *line) {
    enum { ROOM = 1000 };
    static char texts[2][ROOM];
    char *to = texts[text == texts[0]];
    const char *at = strstr(text, field);
    assert_true(at && strlen(text) + strlen(line) < ROOM);
    memcpy(to, text, (size_t)(at - text));
    strcpy(stpcpy(to + (at - text), line), at + strcspn(at, "\n"));
    return to;
}

static const Machine *with_line(const char *field, const char *line) {
    return machine_parse("t", changed(whole, field, line));
}

// ---- what is read ----------------------------------------------------------------------------

TEST_IN_A_FOLDER(all_figures_are_read) {
    const Machine *m = machine_parse("folder/my.own.machine", whole);
    assert_string_equal(m->name, "my.own");
    assert_string_equal(machine_parse("folder/.hidden", whole)->name, ".hidden");
    assert_string_equal(machine_parse("a folder, with/2x-h\303\266her_v1.machine", whole)->name,
                        "2x-h\303\266her_v1");
    assert_string_equal(m->about, "one of the test");
    assert_int_equal(m->links, LINKS_SWITCH);
    assert_true(m->devices == 8 && m->devices_per_root == 2 && m->cards == 4);
    assert_true(m->fp16 == 310e12 && m->fp16_efficiency == 0.85);
    assert_true(m->memory == 40e9 && m->fp32 == 20e12 && m->tf32 == 160e12);
    assert_true(m->efficiency[COST_PRODUCT] == 0.8 && m->efficiency[COST_CONVOLUTION] == 0.6);
    assert_true(m->efficiency[COST_ELEMENTS] == 0.9 && m->memory_bandwidth == 1500e9);
    assert_true(m->kernel == 2e-6 && m->launch == 4e-6 && m->framework == 1e-5);
    assert_true(m->graph_launch == 6e-6 && m->graph_kernel == 5e-7 && m->root_bandwidth == 22e9);
    assert_true(m->link.bandwidth == 300e9 && m->link.latency == 3e-6);
    assert_true(m->host_link.bandwidth == 24e9 && m->host_link.latency == 5e-6);
    assert_true(m->network.bandwidth == 25e9 && m->network.latency == 14e-6);
    // From a file of one's own:
    write_bytes("mine.machine", whole, strlen(whole));
    m = machine_find("mine.machine");
    assert_string_equal(m->name, "mine");
    assert_ptr_equal(machine_find("mine.machine"), m);
    assert_ptr_not_equal(machine_parse("mine.machine", whole), m);
    // As people write it:
    assert_true(with_line("memory", "\r\n  \t memory \t 41   GB#41\r")->memory == 41e9);
    assert_true(with_line("memory", "memory 4.1e1 GB # f\303\274r \316\261")->memory == 41e9);
}

// (Each form of convolution may have figures of its own, and they may be above the peak.)
TEST(some_fields_may_be_left_out) {
    const Machine *m = with_line("tf32", "");
    assert_true(m->tf32 == 20e12 && m->multiprocessors == 0 && m->event == 0);
    assert_int_equal(with_line("devices_per", "")->devices_per_root, 1);
    assert_true(with_line("root_band", "")->root_bandwidth == 24e9);
    static const char *const names[NUM_FORMS] = {"3x3", "large", "plain", "thin"};
    for (int named = 0; named < NUM_FORMS; named++) {
        char lines[80];
        snprintf(lines, sizeof lines, "convolution 110 %%\nconvolution_%s 210 %% 220 %% 230 %%",
                 names[named]);
        m = with_line("convolution", lines);
        for (int form = 0; form < NUM_FORMS; form++)
            for (int pass = 0; pass < NUM_PASSES; pass++)
                assert_true(m->convolution[form][pass] ==
                            (form == named ? (210 + 10 * pass) / 100.0 : 1.1));
    }
}

// ---- what is built in ------------------------------------------------------------------------

// In GB/s: what is written beside them in the files says who measured them, or states them.
TEST(bandwidths_are_those_of_the_sources) {
    static const struct {
        const char *name;
        double memory, link, host_link, root, network; // 0: there is none
    } sources[] = {
        {"cluster-10gbe", 1555, 24, 24, 24, 9.41 / 8},
        {"colab-t4", 320, 12, 12, 12, 0},
        {"d2l-pcie", 1e15, 16, 16, 16, 0},
        {"dgx-a100", 1555, 274, 24, 24, 23.5},
        {"dgx-h100", 3350, 375, 51.2, 51.2, 48.5},
        {"dgx-v100", 900, 47.9, 12, 12, 12},
        {"laptops-1gbe", 51.2, 17, 17, 17, 0.118},
        {"p100-25gbe", 732, 12.2, 12.2, 12.2, 3},
        {"rtx4090-pcie", 1008, 19.5, 19.5, 19.5, 0},
    };
    size_t i = 0;
    for (const MachineFile *file = machine_files; file->name; file++, i++) {
        const Machine *m = machine_find(file->name);
        assert_ptr_equal(machine_find(file->name), m);
        assert_ptr_equal(machine_text(file->name), file->text);
        assert_string_equal(file->name, sources[i].name);
        assert_string_equal(m->name, file->name);
        const double ours[] = {m->memory_bandwidth, m->link.bandwidth, m->host_link.bandwidth,
                               m->root_bandwidth, m->network.bandwidth};
        for (int way = 0; way < 5; way++) {
            double expected = (&sources[i].memory)[way] * 1e9;
            if (!(fabs(ours[way] - expected) <= 1e-9 * expected))
                fail_msg("%s: bandwidth %d is %g, not %g", m->name, way, ours[way], expected);
        }
    }
    assert_int_equal(i, COUNT(sources));
    // All V100 have six links of 23.95 GB/s, and each mesh is the same seen from both sides.
    const Machine *v100 = machine_find("dgx-v100");
    for (int from = 0; from < 8; from++) {
        double sum = 0;
        for (int to = 0; to < 8; sum += v100->mesh[from][to++])
            assert_true(v100->mesh[from][to] == v100->mesh[to][from]);
        assert_true(fabs(sum - 6 * 23.95e9) < 1);
    }
}

TEST(the_table_fits_the_screen) {
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    machine_list(out);
    fclose(out);
    const MachineFile *file = machine_files - 1; // a heading, and a line for each
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1, file++)
        assert_true(strcspn(line, "\n") <= 80 && line[65] == ' ' && line[66] != ' ');
    assert_null(file->name);
    assert_non_null(strstr(text, "dgx-a100            8         19.5    40 GB  switch 274 GB/s"));
    assert_non_null(strstr(text, "d2l-pcie            4     no limit    16 GB  PCIe 16 GB/s"));
    assert_null(strstr(text, "e+"));
    assert_non_null(strstr(text, "8 x 23.5 GB/s"));
}

// ---- mistakes --------------------------------------------------------------------------------

#define MESH_OF(pair) "link mesh 1 us\npair " pair " 1 GB/s"

static void parse(void *text) { machine_parse("t", text); }

TEST(mistakes_are_told) {
    // A field, a line in its place, words of the error; maybe another field and its line.
    static const char *const mistakes[][5] = {
        // Numbers.
        {"memory", "memory", "t:3: memory: expected a number, and the line ends"},
        {"memory", "memory GB", "t:3: memory: expected a number, not 'GB'"},
        {"memory", "memory 1e999 GB", "memory: expected a number, not '1e999'"},
        {"memory", "memory 0x10 GB", "memory: expected a number, not '0x10'"},
        {"memory", "memory 4.0.0 GB", "a number and nothing after it, not '4.0.0'"},
        {"memory", "memory -1 GB", "memory: expected a number that is not negative, not '-1'"},
        {"memory", "memory 40 GB GB", "not 'GB'\nhint: such a line looks like this: memory 40 GB"},
        {"product", "product 80 % 70 % 60 %", "product: expected the end of the line, not '60'"},
        {"convolution", "convolution_thin 10 % 20 %", "t:7: convolution_thin: expected a number"},
        // Ranges.
        {"memory", "memory 0 GB", "memory: expected 1 MB to 1000 TB, not '0 GB'"},
        {"memory", "memory 1e308 GB", "memory: expected 1 MB to 1000 TB, not '1e308 GB'"},
        {"fp32", "fp32 1e-300 TFLOP/s", "t:4: fp32: expected 0.001 GFLOP/s to 1e12 TFLOP/s"},
        {"root_b", "root_bandwidth 22 B/s", "root_bandwidth: expected 1000 B/s to 1e15 TB/s"},
        {"kernel", "kernel 11 s", "t:10: kernel: expected 0 s to 10 s, not '11 s'"},
        {"convolution", "convolution 10001 %", "convolution: expected 1e-8 % to 10000 %"},
        {"product", "product 100.1 %", "t:6: product: expected 1e-8 % to 100 %, not '100.1 %'"},
        {"product", "product 0 %", "product: expected 1e-8 % to 100 %, not '0 %'"},
        {"devices", "devices 0", "t:2: devices: expected a whole number from 1 to 1024"},
        {"devices", "devices 2.5", "expected a whole number from 1 to 1024, not '2.5'"},
        {"devices", "devices 1025", "expected a whole number from 1 to 1024, not '1025'"},
        // Units.
        {"memory", "memory 40 GiB", "expected one of the units B, kB, MB, GB, TB, not 'GiB'"},
        {"memory_b", "memory_bandwidth 40 GB", "t:9: memory_bandwidth: expected one of the units"},
        // Fields.
        {"memory", "memori 40 GB", "t:3: there is no field 'memori'\nhint: the fields are about,"},
        {"launch", "kernel 3 us", "t:11: kernel: it stands in line 10, too"},
        {"about", "about", "t:1: about: expected some words, and the line ends"},
        {"memory", "#", "'memory' is missing\nhint: add a line like this: memory 40 GB"},
        {"cards", "cards 0", "t:20: network: expected the number of network cards"},
        // Links.
        {"link", "link", "t:15: link: expected switch, tree, host, mesh, and the line"},
        {"link", "link star 1 GB/s 1 us", "expected one of switch, tree, host, mesh, not 'star'"},
        {"link", "link mesh 3 us", "the field 'pair' is missing"},
        {"link", "link mesh 3 us\npair 0 8 1 GB/s", "t:16: pair: expected a whole number from 0"},
        {"link", "link mesh 3 us\npair 2 2 1 GB/s", "pair: expected two devices, not 2 twice"},
        {"link", "link mesh 3 us\npair 2 3 1 GB/s\npair 3 2 1 GB/s",
         "t:17: pair: the pair 3 2 stands there twice"},
        {"link", "link tree\npair 2 3 1 GB/s", "t:16: pair: expected 'link mesh', too"},
        {"about", "pair 0 1 1 GB/s", "t:1: pair: expected the line 'devices' before this"},
        {"devices_per", "devices_per_root 9", "t:17: devices_per_root: expected at most the 8"},
        // What only some links need, or can have.
        {"link", "link tree", "the field 'devices_per_root' is missing", "devices_per", "#"},
        {"link", "link host", "the field 'root_bandwidth' is missing", "root_band", "#"},
        {"link", MESH_OF("0 1"), "'devices_per_root' is missing", "devices_per", "#"},
        {"link", MESH_OF("0 15"), "t:2: devices: expected at", "devices", "devices 33"},
        {"link", MESH_OF("0 16"), "t:16: pair: expected a who", "devices", "devices 33"},
    };
    for (size_t i = 0; i < COUNT(mistakes); i++) {
        const char *const *row = mistakes[i];
        char *text = changed(whole, row[0], row[1]);
        expect_death(EXIT_FAILURE, row[2], parse, row[3] ? changed(text, row[3], row[4]) : text);
    }
    static const char *const needed[] = {"about",   "devices",     "memory",    "fp32",
                                         "product", "convolution", "elements",  "memory_bandwidth",
                                         "kernel",  "launch",      "graph_lau", "graph_ker",
                                         "link",    "framework",   "host_link", "network"};
    for (size_t i = 0; i < COUNT(needed); i++) {
        char words[64];
        snprintf(words, sizeof words, "t: the field '%s", needed[i]);
        expect_death(EXIT_FAILURE, words, parse, changed(whole, needed[i], "#"));
    }
}

static void find(void *name) { machine_find(name); }
static void text_of(void *name) { machine_text(name); }

TEST_IN_A_FOLDER(files_that_are_none) {
    static char line[300] = "devices 8\nabout ", large[70000];
    memset(line + 16, 'x', sizeof line - 17);
    memset(large, '\n', sizeof large - 1);
    const char *const files[][2] = {
        {"# only\n\n  # comments\n", "bad.machine: there is nothing in it"},
        {"about x\n\177ELF", "bad.machine:2: expected text, not the byte 0x7f"},
        {"about \033[2J", "bad.machine:1: expected text, not the byte 0x1b"},
        {"about caf\351", "bad.machine:1: expected text, not the byte 0xe9"},
        {line, "bad.machine:2: the line has 289 characters, 200 are"},
        {large, "bad.machine: longer than the 65536 bytes of a machine"},
        {"a\n", "bad.machine: expected text, not the byte 0x00"}, // with a zero byte at its end
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        write_bytes("bad.machine", files[i][0], strlen(files[i][0]) + (i == COUNT(files) - 1));
        expect_death(EXIT_FAILURE, files[i][1], find, "bad.machine");
    }
}

TEST(what_ends_the_program) {
    expect_deaths(state);
    expect_death(EXIT_USAGE, "there is no machine 'dgx-a10'\nhint: the machines are ", find,
                 "dgx-a10");
    expect_death(EXIT_USAGE, "hint: cat './my.machine' shows it", text_of, "./my.machine");
}

DIES("no-such.machine: cannot read: No such file or directory", machine_find("no-such.machine"))
DIES("cannot read: Is a directory", machine_find("."))
// Names of machines are fields of CSV files.
#define NO_NAME ": expected a name without blanks, commas and quotation marks"
DIES(NO_NAME, machine_parse("a,b.machine", whole))
DIES(NO_NAME, machine_parse("folder/a b.machine", whole))
DIES(NO_NAME, machine_parse("\"a\".machine", whole))
DIES(NO_NAME, machine_parse("a;b", whole))
#define ALONE "rtx4090-pcie"
DIES("a route has two different ends", machine_route(machine_find(ALONE), 3, 3))
DIES("the machine lacks a device", machine_route(machine_find(ALONE), 0, 8))
DIES("the machine has fewer devices", machine_ports(machine_find(ALONE), 9))

// ---- time ------------------------------------------------------------------------------------

#define UNCHANGED "about", "about one of the test"
#define TWO       "product", "product 80 % 40 %" // the second one in TF32
#define FORMS     "convolution", "convolution 60 % 120 %\nconvolution_3x3 4 % 5 % 6 %"
// 100 multiprocessors with two tiles of 64 x 64 each: the time of a wave, sums of 1000 numbers.
#define GPU  "fp32", "fp32 20 TFLOP/s\nmultiprocessors 100"
#define WAVE (200 * 2 * 64 * 64 * 1e3 / (20e12 * 0.8))
#define IS(kind, flop, bytes)                                                                      \
    0, {COST_##kind, flop, bytes, 0, PASS_INPUT}, { 0, 0, 0, 0 }
#define TILES(rows, columns, count)                                                                \
    0, {COST_PRODUCT, 2e3 * rows * columns, 0, 0, 0}, { count, rows, columns, 1e3 }
#define MOVED(moved, bytes)                                                                        \
    moved, {COST_PRODUCT, 2e3, bytes, 0, 0}, { 1, 1, 1, 1e3 }

TEST(kernels_take_their_arithmetic_or_their_bytes) {
    static const struct {
        const char *field, *line;
        bool tf32;
        double expected;
        KernelTraffic t;
    } kernels[] = {
        {UNCHANGED, false, 1e12 / (20e12 * 0.6), {1, IS(CONVOLUTION, 1e12, 1e6)}},
        {UNCHANGED, false, 1e12 / (1500e9 * 0.9), {1, IS(PRODUCT, 1e12, 1e12)}},
        {UNCHANGED, true, 1e12 / 20e12, {1, IS(ELEMENTS, 1e12, 1)}},
        {UNCHANGED, true, 1e12 / (1500e9 * 0.9), {1, IS(ELEMENTS, 1e12, 1e12)}},
        {TWO, false, 1e12 / (20e12 * 0.8), {1, IS(PRODUCT, 1e12, 0)}},
        {TWO, true, 1e12 / (160e12 * 0.4), {1, IS(PRODUCT, 1e12, 0)}},
        {TWO, true, 1e12 / (160e12 * 0.6), {1, IS(CONVOLUTION, 1e12, 0)}},
        {FORMS, false, 1e12 / (20e12 * 0.05), {1, IS(CONVOLUTION, 1e12, 0)}}, // FORM_3X3
        {FORMS, true, 1e12 / (160e12 * 1.2), {1, IS(CONVOLUTION, 1e12, 0)}},
        {FORMS, true, 1e12 / (160e12 * 0.8), {1, IS(PRODUCT, 1e12, 0)}},
        {GPU, false, WAVE, {1, TILES(640, 1280, 1)}},       // 200 tiles
        {GPU, false, 2 * WAVE, {1, TILES(640, 1281, 1)}},   // 10 more: another wave
        {GPU, false, WAVE, {1, TILES(577, 1217, 1)}},       // the last tiles: in part
        {GPU, false, WAVE, {1, TILES(64, 64 * 51, 1)}},     // none can be cut
        {GPU, false, WAVE / 2, {1, TILES(64, 64 * 50, 1)}}, // two parts of each sum
        {GPU, false, WAVE / 100, {1, TILES(1, 1, 1)}},
        {GPU, false, 7 * WAVE / 100, {1, TILES(64, 64, 7)}},
        {GPU, true, WAVE / 8, {1, TILES(640, 1280, 1)}},
        // What is moved comes before and after; what the product reads, at the same time.
        {GPU, false, WAVE / 100 + 1e9 / 1350e9, {1, MOVED(1e9, 0)}},
        {GPU, false, 2e9 / 1350e9, {1, MOVED(1e9, 1e9)}},
    };
    for (size_t i = 0; i < COUNT(kernels); i++) {
        const Machine *m = with_line(kernels[i].field, kernels[i].line);
        double seconds = machine_kernel_seconds(m, kernels[i].t, kernels[i].tf32);
        if (!(fabs(seconds - kernels[i].expected) <= 1e-12 * kernels[i].expected))
            fail_msg("row %zu: %.15g s, expected %.15g", i, seconds, kernels[i].expected);
    }
}

TEST(parts_that_are_free) {
    const Machine *m = machine_find("dgx-a100");
    const KernelTraffic product = {.work = {.kind = COST_PRODUCT, .flop = 1e12, .bytes = 1e6}};
    Machine roomy = machine_with_free(m, FREE_MEMORY), linked = machine_with_free(m, FREE_LINKS);
    Machine hosts = machine_with_free(m, FREE_LINKS | FREE_DEVICES);
    assert_true(isinf(roomy.memory) && linked.memory == m->memory);
    for (int to = HOST_MEMORY; to <= 8; to += 9) { // the host, and a device of another one
        assert_true(machine_route(&roomy, 0, to).link.latency > 0);
        assert_true(machine_route(&linked, 0, to).link.latency == 0);
        assert_true(isinf(machine_route(&linked, 0, to).link.bandwidth));
    }
    assert_true(machine_kernel_seconds(&linked, product, false) ==
                machine_kernel_seconds(m, product, false));
    assert_true(machine_kernel_seconds(&hosts, product, false) == 0);
    assert_true(hosts.kernel == 0 && hosts.graph_kernel == 0 && hosts.launch == m->launch);
}

// ---- ways ------------------------------------------------------------------------------------

static bool share_a_port(Route a, Route b) {
    for (int i = 0; i < a.num_ports; i++)
        for (int j = 0; j < b.num_ports; j++)
            if (a.ports[i].port == b.ports[j].port) return true;
    return false;
}

static void assert_link(Route route, double bandwidth, double latency, int num_ports) {
    assert_true(route.link.bandwidth == bandwidth && route.link.latency == latency);
    assert_int_equal(route.num_ports, num_ports);
}

static void assert_good_routes(const Machine *machine, int num_devices) {
    int num_ports = machine_ports(machine, num_devices);
    for (int from = 0; from < num_devices; from++)
        for (int to = HOST_MEMORY; to < num_devices; to++) {
            if (to == from) continue;
            Route route = machine_route(machine, from, to), back = machine_route(machine, to, from);
            assert_true(isfinite(route.link.bandwidth) && route.link.bandwidth > 0);
            assert_in_range(route.num_ports, 1, MAX_PORTS);
            assert_link(back, route.link.bandwidth, route.link.latency, route.num_ports);
            if (machine->links != LINKS_HOST)
                assert_false(share_a_port(route, back)); // both ways at a time
            for (int i = 0; i < route.num_ports; i++) {
                int port = route.ports[i].port;
                assert_in_range(port, 0, num_ports - 1);
                for (int j = 0; j < i; j++) assert_int_not_equal(port, route.ports[j].port);
            }
        }
}

#define TREE "link", "link tree"
#define HOST "link", "link host" // each copy goes up and down, even to the neighbour
#define MESH "link", "link mesh 3 us\npair 0 1 50 GB/s\npair 1 2 25 GB/s"
#define FAST "network", "network 30 GB/s 14 us" // four cards for eight devices

TEST(routes_are_alike_both_ways) {
    for (const MachineFile *file = machine_files; file->name; file++) {
        const Machine *m = machine_find(file->name);
        assert_good_routes(m, m->cards > 0 ? 3 * m->devices + 1 : m->devices);
    }
    assert_good_routes(with_line(TREE), 19);
    assert_good_routes(with_line(HOST), 19);
    assert_good_routes(with_line(MESH), 19);
}

enum { H = HOST_MEMORY };
static const struct {
    const char *field, *line;
    double ways[4][5];   // from, to: bandwidth, latency, ports; the last one ends at its beginning
    const char *meet[2]; // pairs of copies that share no port, and that do; host -1
} links[] = {
    // Out of one device, or into one; down one root port (but each host has the data).
    {UNCHANGED,
     {{0, 5, 300e9, 3e-6, 2}, {3, H, 22e9, 5e-6, 2}, {15, 16, 24e9, 14e-6, 4}},
     {"0>5,1>4 0>5,0>-1 -1>0,-1>2 -1>0,-1>8", "0>5,0>4 0>5,1>5 -1>0,-1>1"}},
    // Under one root port, or not; up one root port.
    {TREE,
     {{0, 1, 24e9, 5e-6, 2}, {0, 2, 22e9, 5e-6, 4}},
     {"0>2,3>1 0>1,2>3 0>2,4>6 0>1,1>-1 0>1,-1>0", "0>2,1>3 0>2,1>-1"}},
    {HOST, {{0, 1, 22e9, 10e-6, 4}, {0, H, 22e9, 5e-6, 2}}, {"0>2,2>0", "0>1,1>0"}},
    // (The pair 0 2 has no link: by PCIe.) Two links into device 1, two out of device 0.
    {MESH,
     {{0, 1, 50e9, 3e-6, 1}, {2, 1, 25e9, 3e-6, 1}, {0, 2, 22e9, 5e-6, 4}},
     {"0>1,2>1 0>1,0>2", ""}},
    // (PCIe is the slowest part.) One card out, one card in; beside the switch; by the same PCIe.
    {FAST, {{0, 8, 24e9, 14e-6, 4}}, {"0>8,2>10 0>8,16>24 0>8,0>2", "0>8,1>10 0>8,18>9 0>8,0>-1"}},
};

TEST(ways_have_the_slowest_parts_rate_and_share_ports) {
    for (size_t i = 0; i < COUNT(links); i++) {
        const Machine *m = with_line(links[i].field, links[i].line);
        for (const double *w = links[i].ways[0]; w[0] != w[1]; w += 5)
            assert_link(machine_route(m, (int)w[0], (int)w[1]), w[2], w[3], (int)w[4]);
        for (int meet = 0, a, b, c, d, used; meet < 2; meet++)
            for (const char *at = links[i].meet[meet]; *at; at += used) {
                assert_int_equal(sscanf(at, "%d>%d,%d>%d %n", &a, &b, &c, &d, &used), 4);
                if (share_a_port(machine_route(m, a, b), machine_route(m, c, d)) != meet)
                    fail_msg("%s: %.9s", links[i].line, at);
            }
    }
    assert_link(machine_route(machine_find("laptops-1gbe"), 4, 0), 118e6, 35e-6, 4);
}

TEST(as_many_devices_as_there_are) {
    const Machine *network = machine_find("dgx-a100"), *alone = machine_find(ALONE);
    assert_true(machine_has_devices(network, 1024) && machine_has_devices(alone, 8));
    assert_false(machine_has_devices(alone, 9) || machine_has_devices(alone, 0));
    assert_int_equal(machine_ports(network, 9), 2 * machine_ports(network, 8));
}

int main(void) { return run_all("machine", NULL, NULL); }
