// test_machine.c: machines from text files: those that are built in, what a mistake in a file says,
// the ways through a machine and the ports that copies would share.
#include "common/base/error.h"
#include "common/model/machine.h"
#include "dies.h"

// ---- files of the test -----------------------------------------------------------------------

// A machine in which every figure is another one, so that none can stand for another.
static const char whole[] = "about one of the test\n"               // line 1
                            "devices 8\n"                           // 2
                            "memory 40 GB\n"                        // 3
                            "fp32 20 TFLOP/s\n"                     // 4
                            "tf32 160 TFLOP/s\n"                    // 5
                            "product 80 %\n"                        // 6
                            "convolution 60 %\n"                    // 7
                            "elements 90 %\n"                       // 8
                            "memory_bandwidth 1500 GB/s\n"          // 9
                            "kernel 2 us\n"                         // 10
                            "launch 4 us\n"                         // 11
                            "graph_launch 6 us\n"                   // 12
                            "graph_kernel 500 ns\n"                 // 13
                            "framework 0.01 ms\n"                   // 14
                            "link switch 300 GB/s 3 us\n"           // 15
                            "host_link 24 GB/s 5 us\n"              // 16
                            "devices_per_root 2\n"                  // 17
                            "root_bandwidth 22 GB/s\n"              // 18
                            "cards 4\n"                             // 19
                            "network 200 Gb/s 14 us   # a comment"; // 20

// The text with a line in place of the one that begins with `field` (NULL: without it). The last
// one is kept until the next call.
static const char *with_line(const char *field, const char *line) {
    static char *changed;
    free(changed);
    const char *at = strstr(whole, field);
    assert_non_null(at);
    const char *rest = at + strcspn(at, "\n");
    changed = xprintf("%.*s%s%s", (int)(at - whole), whole, line, rest);
    return changed;
}

static const Machine *with_links(const char *link) {
    return machine_parse("test", with_line("link", link));
}

static double seconds_of(const Machine *machine, KernelCost work, bool tf32) {
    return machine_kernel_seconds(machine, (KernelTraffic){.launches = 1, .work = work}, tf32);
}

// ---- what is read ----------------------------------------------------------------------------

static void all_figures_are_read(void **state) {
    (void)state;
    const Machine *m = machine_parse("folder/my.own.machine", whole);
    assert_string_equal(m->name, "my.own");
    assert_string_equal(machine_parse("folder/.hidden", whole)->name, ".hidden");
    assert_string_equal(m->about, "one of the test");
    assert_int_equal(m->devices, 8);
    assert_true(m->memory == 40e9 && m->fp32 == 20e12 && m->tf32 == 160e12);
    assert_true(m->efficiency[COST_PRODUCT] == 0.8 && m->efficiency[COST_CONVOLUTION] == 0.6);
    assert_true(m->efficiency[COST_ELEMENTS] == 0.9 && m->memory_bandwidth == 1500e9);
    assert_true(m->kernel == 2e-6 && m->launch == 4e-6 && m->framework == 1e-5);
    assert_true(m->graph_launch == 6e-6 && m->graph_kernel == 5e-7);
    assert_int_equal(m->links, LINKS_SWITCH);
    assert_true(m->link.bandwidth == 300e9 && m->link.latency == 3e-6);
    assert_true(m->host_link.bandwidth == 24e9 && m->host_link.latency == 5e-6);
    assert_true(m->devices_per_root == 2 && m->root_bandwidth == 22e9);
    assert_true(m->cards == 4 && m->network.bandwidth == 25e9 && m->network.latency == 14e-6);
}

static void some_fields_may_be_left_out(void **state) {
    (void)state;
    assert_true(machine_parse("test", with_line("tf32", ""))->tf32 == 20e12);
    assert_int_equal(machine_parse("test", whole)->multiprocessors, 0);
    assert_true(machine_parse("test", whole)->event == 0);
    assert_int_equal(machine_parse("test", with_line("devices_per", ""))->devices_per_root, 1);
    assert_true(machine_parse("test", with_line("root_band", ""))->root_bandwidth == 24e9);
    const Machine *m = machine_parse("test", whole);
    for (int form = 0; form < NUM_FORMS; form++)
        for (int pass = 0; pass < NUM_PASSES; pass++)
            assert_true(m->convolution[form][pass] == 0.6);
}

// Each form of convolution may have figures of its own, and they may be above the peak.
static void forms_of_convolution(void **state) {
    (void)state;
    const Machine *m =
        machine_parse("t", with_line("convolution", "convolution 110 %\n"
                                                    "convolution_3x3 210 % 220 % 230 %\n"
                                                    "convolution_plain 4 % 5 % 6 %"));
    assert_true(m->efficiency[COST_CONVOLUTION] == 1.1);
    assert_true(m->convolution[FORM_3X3][PASS_FORWARD] == 2.1);
    assert_true(m->convolution[FORM_3X3][PASS_INPUT] == 2.2);
    assert_true(m->convolution[FORM_3X3][PASS_PARAMS] == 2.3);
    assert_true(m->convolution[FORM_PLAIN][PASS_FORWARD] == 0.04);
    assert_true(m->convolution[FORM_LARGE][PASS_INPUT] == 1.1);
    assert_true(m->convolution[FORM_THIN][PASS_PARAMS] == 1.1);
    KernelCost cost = {.kind = COST_CONVOLUTION, .flop = 1e12};
    cost.form = FORM_PLAIN;
    cost.pass = PASS_PARAMS;
    assert_true(seconds_of(m, cost, false) == 1e12 / (20e12 * 0.06));
}

// Products and convolutions may have a figure of their own in TF32.
static void figures_of_tf32(void **state) {
    (void)state;
    const KernelCost product = {.kind = COST_PRODUCT, .flop = 1e12};
    const KernelCost convolution = {.kind = COST_CONVOLUTION, .flop = 1e12};
    const Machine *m = machine_parse("t", with_line("product", "product 80 % 40 %"));
    assert_true(seconds_of(m, product, false) == 1e12 / (20e12 * 0.8));
    assert_true(seconds_of(m, product, true) == 1e12 / (160e12 * 0.4));
    assert_true(seconds_of(m, convolution, true) == 1e12 / (160e12 * 0.6));
    m = machine_parse("t", with_line("convolution", "convolution 60 % 120 %\n"
                                                    "convolution_3x3 210 % 220 % 230 %\n"));
    assert_true(seconds_of(m, convolution, false) == 1e12 / (20e12 * 2.1));
    assert_true(seconds_of(m, convolution, true) == 1e12 / (160e12 * 1.2));
    assert_true(seconds_of(m, product, true) == 1e12 / (160e12 * 0.8));
}

static void text_is_read_as_people_write_it(void **state) {
    (void)state;
    const Machine *m = machine_parse("t", with_line("memory", "\r\n  \t memory \t 41   GB#41\r"));
    assert_true(m->memory == 41e9);
    m = machine_parse("t", with_line("memory", "memory 4.1e1 GB # f\303\274r \316\261"));
    assert_true(m->memory == 41e9);
}

// ---- what is built in ------------------------------------------------------------------------

static void those_built_in_can_be_read(void **state) {
    (void)state;
    int count = 0;
    for (const MachineFile *file = machine_files; file->name; file++) {
        const Machine *machine = machine_find(file->name);
        assert_string_equal(machine->name, file->name);
        assert_ptr_equal(machine_find(file->name), machine);
        assert_true(machine_has_devices(machine, machine->devices));
        count++;
    }
    assert_true(count >= 7);
}

// In GB/s: what is written beside them in the files says who measured them, or states them.
static void bandwidths_are_those_of_the_sources(void **state) {
    (void)state;
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
    int i = 0;
    for (const MachineFile *file = machine_files; file->name; file++, i++) {
        const Machine *m = machine_find(file->name);
        assert_string_equal(file->name, sources[i].name);
        const double ours[] = {m->memory_bandwidth, m->link.bandwidth, m->host_link.bandwidth,
                               m->root_bandwidth, m->network.bandwidth};
        for (int way = 0; way < 5; way++) {
            double expected = (&sources[i].memory)[way] * 1e9;
            if (!(fabs(ours[way] - expected) <= 1e-9 * expected))
                fail_msg("%s: bandwidth %d is %g, not %g", m->name, way, ours[way], expected);
        }
    }
}

// All V100 have six links of 23.95 GB/s, and each mesh is the same seen from both sides.
static void the_mesh_of_dgx_v100(void **state) {
    (void)state;
    const Machine *machine = machine_find("dgx-v100");
    for (int from = 0; from < 8; from++) {
        double sum = 0;
        for (int to = 0; to < 8; to++) {
            sum += machine->mesh[from][to];
            assert_true(machine->mesh[from][to] == machine->mesh[to][from]);
        }
        assert_true(fabs(sum - 6 * 23.95e9) < 1);
    }
    assert_true(machine->link.bandwidth == 47.9e9);
}

static void the_table_fits_the_screen(void **state) {
    (void)state;
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    machine_list(out);
    fclose(out);
    int lines = 0, machines = 0;
    while (machine_files[machines].name) machines++;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        assert_true(strcspn(line, "\n") <= 80);
        lines++;
    }
    assert_int_equal(lines, 1 + machines);
    assert_non_null(strstr(text, "dgx-a100           8         19.5     40 GB  switch 274 GB/s"));
    assert_non_null(strstr(text, "8 x 23.5 GB/s"));
}

static void a_file_of_ones_own(void **state) {
    (void)state;
    const char *path = in_test_folder("mine.machine");
    write_bytes(path, whole, strlen(whole));
    const Machine *machine = machine_find(path);
    assert_string_equal(machine->name, "mine");
    assert_ptr_equal(machine_find(path), machine);
    assert_ptr_not_equal(machine_parse(path, whole), machine);
}

// ---- mistakes --------------------------------------------------------------------------------

typedef struct Mistake {
    const char *field, *line, *message;
} Mistake;

static void parse(void *arg) {
    const Mistake *mistake = arg;
    machine_parse("t.machine", with_line(mistake->field, mistake->line));
}

static void expect_mistakes(const Mistake *mistakes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        Mistake mistake = mistakes[i];
        expect_death(EXIT_FAILURE, mistake.message, parse, &mistake);
    }
}

static void wrong_numbers(void **state) {
    (void)state;
    const Mistake mistakes[] = {
        {"memory", "memory", "error: t.machine:3: memory: expected a number, and the line ends"},
        {"memory", "memory GB", "t.machine:3: memory: expected a number, not 'GB'"},
        {"memory", "memory nan GB", "memory: expected a number, not 'nan'"},
        {"memory", "memory inf GB", "memory: expected a number, not 'inf'"},
        {"memory", "memory 1e999 GB", "memory: expected a number, not '1e999'"},
        {"memory", "memory 0x10 GB", "memory: expected a number, not '0x10'"},
        {"memory", "memory 40GB", "memory: expected a number, not '40GB'"},
        {"memory", "memory 4.0.0 GB",
         "memory: expected a number and nothing after it, not '4.0.0'"},
        {"memory", "memory -1 GB", "memory: expected a number that is not negative, not '-1'"},
        {"memory", "memory 0 GB", "memory: expected 1 MB to 1000 TB, not '0 GB'"},
        {"memory", "memory 1e308 GB", "memory: expected 1 MB to 1000 TB, not '1e308 GB'"},
        {"fp32", "fp32 1e-300 TFLOP/s",
         "t.machine:4: fp32: expected 0.001 GFLOP/s to 1e12 TFLOP/s, not '1e-300 TFLOP/s'"},
        {"root_bandwidth", "root_bandwidth 22 B/s",
         "t.machine:18: root_bandwidth: expected 1000 B/s to 1e15 TB/s, not '22 B/s'"},
        {"kernel", "kernel 11 s", "t.machine:10: kernel: expected 0 s to 10 s, not '11 s'"},
        {"link", "link switch 1e-9 GB/s 3 us", "t.machine:15: link: expected 1000 B/s to"},
        {"convolution", "convolution 10001 %", "convolution: expected 1e-8 % to 10000 %"},
        {"memory", "memory 40 GB 3", "memory: expected the end of the line, not '3'"},
        {"memory", "memory 40 GB GB", "hint: such a line looks like this: memory 40 GB"},
        {"kernel", "kernel -0.1 us",
         "t.machine:10: kernel: expected a number that is not negative"},
        {"product", "product 100.1 %",
         "t.machine:6: product: expected 1e-8 % to 100 %, not '100.1 %'"},
        {"product", "product 0 %", "product: expected 1e-8 % to 100 %, not '0 %'"},
        {"convolution", "convolution_thin 10 % 20 %",
         "t.machine:7: convolution_thin: expected a number, and the line ends"},
        {"devices", "devices 0", "t.machine:2: devices: expected a whole number from 1 to 1024"},
        {"devices", "devices 2.5", "expected a whole number from 1 to 1024, not '2.5'"},
        {"devices", "devices 1025", "expected a whole number from 1 to 1024, not '1025'"},
        {"fp32", "fp32 20 TFLOP/s\nmultiprocessors 0",
         "t.machine:5: multiprocessors: expected a whole number from 1 to 1024, not '0'"},
        {"product", "product 80 % 101 %", "product: expected 1e-8 % to 100 %, not '101 %'"},
        {"product", "product 80 % 70 % 60 %", "product: expected the end of the line, not '60'"},
        {"devices", "devices 8 GB", "devices: expected the end of the line, not 'GB'"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof mistakes[0]);
}

static void wrong_units(void **state) {
    (void)state;
    const Mistake mistakes[] = {
        {"memory", "memory 40", "memory: expected B, kB, MB, GB, TB, and the line ends"},
        {"memory", "memory 40 GiB",
         "t.machine:3: memory: expected one of the units B, kB, MB, GB, TB, not 'GiB'"},
        {"memory", "memory 40 Gb", "not 'Gb'"},
        {"memory_b", "memory_bandwidth 40 GB",
         "t.machine:9: memory_bandwidth: expected one of the units B/s, MB/s, GB/s"},
        {"fp32", "fp32 20 TFLOP", "fp32: expected one of the units FLOP/s, GFLOP/s, TFLOP/s"},
        {"launch", "launch 4 \302\265s", "t.machine:11: expected text, not the byte 0xc2"},
        {"launch", "launch 4 Us", "launch: expected one of the units s, ms, us, ns, not 'Us'"},
        {"product", "product 0.8", "product: expected %, and the line ends"},
        {"network", "network 25 GB/s", "t.machine:20: network: expected a number, and the line"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof mistakes[0]);
}

static void wrong_fields(void **state) {
    (void)state;
    const Mistake mistakes[] = {
        {"memory", "memori 40 GB",
         "t.machine:3: there is no field 'memori'\nhint: the fields are "
         "about, devices, memory, fp32, tf32"},
        {"memory", "Memory 40 GB", "t.machine:3: there is no field 'Memory'"},
        {"launch", "kernel 3 us", "t.machine:11: kernel: it stands in line 10, too"},
        {"about", "about", "t.machine:1: about: expected some words, and the line ends"},
        {"memory", "#",
         "t.machine: the field 'memory' is missing\nhint: add a line like this: "
         "memory 40 GB"},
        {"about", "#", "the field 'about' is missing"},
        {"devices", "#", "the field 'devices' is missing"},
        {"fp32", "#", "the field 'fp32' is missing"},
        {"product", "#", "the field 'product' is missing"},
        {"convolution", "#", "the field 'convolution' is missing"},
        {"elements", "#", "the field 'elements' is missing"},
        {"memory_b", "#", "the field 'memory_bandwidth' is missing"},
        {"kernel", "#", "the field 'kernel' is missing"},
        {"launch", "#", "the field 'launch' is missing"},
        {"graph_l", "#", "the field 'graph_launch' is missing"},
        {"graph_k", "#", "the field 'graph_kernel' is missing"},
        {"framework", "#", "the field 'framework' is missing"},
        {"host_link", "#", "the field 'host_link' is missing"},
        {"link", "#", "the field 'link' is missing: there are several devices"},
        {"network", "#", "the field 'network' is missing: there are network cards"},
        {"cards", "#", "t.machine:20: network: expected the number of network cards"},
        {"cards", "cards 0", "t.machine:20: network: expected the number of network cards"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof mistakes[0]);
}

static void wrong_links(void **state) {
    (void)state;
    const Mistake mistakes[] = {
        {"link", "link", "t.machine:15: link: expected switch, tree, host, mesh, and the line"},
        {"link", "link star 1 GB/s 1 us",
         "link: expected one of switch, tree, host, mesh, "
         "not 'star'"},
        {"link", "link mesh",
         "link: expected a number, and the line ends\nhint: such a line "
         "looks like this: link mesh 3 us"},
        {"link", "link tree 1 GB/s", "link: expected the end of the line, not '1'"},
        {"link", "link mesh 3 us", "the field 'pair' is missing: a mesh has pairs of devices"},
        {"link", "link mesh 3 us\npair 0 8 1 GB/s",
         "t.machine:16: pair: expected a whole number from 0 to 7, not '8'"},
        {"link", "link mesh 3 us\npair -1 2 1 GB/s", "expected a number that is not negative"},
        {"link", "link mesh 3 us\npair 2 2 1 GB/s", "pair: expected two devices, not 2 twice"},
        {"link", "link mesh 3 us\npair 2 3 1 GB/s\npair 3 2 1 GB/s",
         "t.machine:17: pair: the pair 3 2 stands there twice"},
        {"link", "link mesh 3 us\npair 2 3 0 GB/s", "pair: expected 1000 B/s to"},
        {"link", "link mesh 3 us\npair 2 3", "pair: expected a number, and the line ends"},
        {"link", "link tree\npair 2 3 1 GB/s", "t.machine:16: pair: expected 'link mesh', too"},
        {"about", "pair 0 1 1 GB/s", "t.machine:1: pair: expected the line 'devices' before this"},
        {"devices_per", "link tree", "t.machine:17: link: it stands in line 15, too"},
        {"devices_per", "devices_per_root 9",
         "t.machine:17: devices_per_root: expected at most the 8 devices of a host"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof mistakes[0]);
}

// The text up to the line `link`, then these lines.
static void parse_small(void *arg) {
    const char *at = strstr(whole, "link switch"), *end = arg;
    machine_parse("t", xprintf("%.*s%s", (int)(at - whole), whole, end));
}

static void fields_that_links_need(void **state) {
    (void)state;
    char *tree = "link tree\nhost_link 1 GB/s 1 us\nroot_bandwidth 1 GB/s";
    char *host = "link host\nhost_link 1 GB/s 1 us\ndevices_per_root 2";
    char *mesh = "link mesh 1 us\npair 0 1 1 GB/s\nhost_link 1 GB/s 1 us";
    expect_death(EXIT_FAILURE, "the field 'devices_per_root' is missing: devices reach each other",
                 parse_small, tree);
    expect_death(EXIT_FAILURE, "the field 'root_bandwidth' is missing", parse_small, host);
    expect_death(EXIT_FAILURE, "the field 'devices_per_root' is missing", parse_small, mesh);
}

// A text with both lines changed.
static void parse_many(void *arg) {
    machine_parse(
        "t", xprintf("devices 33\n%s\n%s", (char *)arg, strstr(with_line("link", "#"), "memory")));
}

static void too_many_devices_for_links(void **state) {
    (void)state;
    char *mesh = "about a mesh\nlink mesh 1 us\npair 0 15 1 GB/s";
    char *far = "about a mesh\nlink mesh 1 us\npair 0 16 1 GB/s";
    expect_death(EXIT_FAILURE, "t:1: devices: expected at most 16 with 'link mesh'", parse_many,
                 mesh);
    expect_death(EXIT_FAILURE, "t:4: pair: expected a whole number from 0 to 15, not '16'",
                 parse_many, far);
}

// ---- files that are none ---------------------------------------------------------------------

static void find(void *arg) { machine_find(arg); }

static void expect_bad_file(const void *bytes, size_t size, const char *message) {
    const char *path = in_test_folder("bad.machine");
    write_bytes(path, bytes, size);
    expect_death(EXIT_FAILURE, message, find, (void *)(uintptr_t)path);
}

static void expect_bad_text(const char *text, const char *message) {
    expect_bad_file(text, strlen(text), message);
}

static void files_that_are_none(void **state) {
    (void)state;
    expect_bad_text("", "bad.machine: there is nothing in it");
    expect_bad_text("# only\n\n  # comments\n", "bad.machine: there is nothing in it");
    expect_bad_text("about x\n\177ELF", "bad.machine:2: expected text, not the byte 0x7f");
    expect_bad_file("about \000 x", 9, "bad.machine: expected text, not the byte 0x00");
    expect_bad_text("about \033[2J", "bad.machine:1: expected text, not the byte 0x1b");
    expect_bad_text("about caf\351", "bad.machine:1: expected text, not the byte 0xe9");

    char line[300] = "devices 8\nabout ";
    memset(line + 16, 'x', sizeof line - 16);
    expect_bad_file(line, sizeof line, "bad.machine:2: the line has 290 characters, 200 are");
    char *large = xmalloc(70000);
    memset(large, '\n', 70000);
    expect_bad_file(large, 70000, "bad.machine: longer than the 65536 bytes of a machine");
    free(large);
}

static void texts_of_those_built_in(void **state) {
    (void)state;
    for (const MachineFile *file = machine_files; file->name; file++)
        assert_ptr_equal(machine_text(file->name), file->text);
}

static void text_of(void *name) { machine_text(name); }
static void parse_as(void *name) { machine_parse(name, whole); }

static void files_that_are_not_there(void **state) {
    (void)state;
    expect_death(EXIT_FAILURE, "no-such.machine: cannot read: No such file or directory", find,
                 "no-such.machine");
    expect_death(EXIT_FAILURE, "./a?[31m??.machine: cannot read", find, "./a\033[31m\a\n.machine");
    expect_death(EXIT_FAILURE, "cannot read: Is a directory", find, test_folder);
    expect_death(EXIT_USAGE, "there is no machine 'dgx-a10'\nhint: the machines are ", find,
                 "dgx-a10");
    expect_death(EXIT_USAGE, "there is no machine ''", find, "");
    expect_death(EXIT_USAGE, "hint: cat './my.machine' shows it", text_of, "./my.machine");
}

// They are fields of CSV files.
static void names_of_files_are_names_of_machines(void **state) {
    (void)state;
    const char *const bad[] = {"a,b.machine", "folder/a b.machine", "\"a\".machine", "a;b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_death(EXIT_FAILURE, ": expected a name without blanks, commas and quotation marks",
                     parse_as, (char *)bad[i]);
    assert_string_equal(machine_parse("a folder, with/2x-h\303\266her_v1.machine", whole)->name,
                        "2x-h\303\266her_v1");
}

// ---- time ------------------------------------------------------------------------------------

static void kernels_take_their_arithmetic_or_their_bytes(void **state) {
    (void)state;
    const Machine *m = machine_parse("test", whole);
    KernelCost product = {.kind = COST_PRODUCT, .flop = 1e12, .bytes = 1e6};
    KernelCost convolution = {.kind = COST_CONVOLUTION, .flop = 1e12, .bytes = 1e6};
    assert_true(seconds_of(m, product, false) == 1e12 / (20e12 * 0.8));
    assert_true(seconds_of(m, product, true) == 1e12 / (160e12 * 0.8));
    assert_true(seconds_of(m, convolution, false) == 1e12 / (20e12 * 0.6));
    assert_true(seconds_of(m, convolution, true) == 1e12 / (160e12 * 0.6));
    product.bytes = 1e12;
    assert_true(seconds_of(m, product, false) == 1e12 / (1500e9 * 0.9));
    KernelCost elements = {.kind = COST_ELEMENTS, .flop = 1e12, .bytes = 1};
    assert_true(seconds_of(m, elements, true) == 1e12 / 20e12);
    elements.bytes = 1e12;
    assert_true(seconds_of(m, elements, true) == 1e12 / (1500e9 * 0.9));
    assert_true(seconds_of(m, (KernelCost){.kind = COST_PRODUCT}, false) == 0);
}

static void assert_seconds(const Machine *machine, KernelTraffic t, bool tf32, double expected) {
    double seconds = machine_kernel_seconds(machine, t, tf32);
    if (!(fabs(seconds - expected) <= 1e-9 * expected))
        fail_msg("%.12g seconds, expected %.12g", seconds, expected);
}

static KernelTraffic product_of(double rows, double columns, double length, int count) {
    return (KernelTraffic){.launches = 1,
                           .work = {.kind = COST_PRODUCT, .flop = 2 * rows * columns * length},
                           .products = {count, rows, columns, length}};
}

// 100 multiprocessors with two tiles of 64 x 64 each: the time of a wave, sums of 1000 numbers.
static void products_go_in_waves(void **state) {
    (void)state;
    const Machine *m =
        machine_parse("t", with_line("fp32", "fp32 20 TFLOP/s\nmultiprocessors 100\n# instead of"));
    const double wave = 200 * 2 * 64 * 64 * 1e3 / (20e12 * 0.8);
    assert_seconds(m, product_of(640, 1280, 1000, 1), false, wave);       // 200 tiles
    assert_seconds(m, product_of(640, 1281, 1000, 1), false, 2 * wave);   // 10 more: another wave
    assert_seconds(m, product_of(577, 1217, 1000, 1), false, wave);       // the last tiles: in part
    assert_seconds(m, product_of(64, 64 * 51, 1000, 1), false, wave);     // none can be cut
    assert_seconds(m, product_of(64, 64 * 50, 1000, 1), false, wave / 2); // two parts of each sum
    assert_seconds(m, product_of(64, 64, 1000, 1), false, wave / 100);
    assert_seconds(m, product_of(1, 1, 1000, 1), false, wave / 100);
    assert_seconds(m, product_of(64, 64, 1000, 7), false, 7 * wave / 100);
    assert_seconds(m, product_of(640, 1280, 1000, 1), true, wave / 8);
    KernelTraffic t = product_of(1, 1, 1000, 1); // what is moved comes before and after
    t.moved = 1e9;
    assert_seconds(m, t, false, wave / 100 + 1e9 / (1500e9 * 0.9));
    t.work.bytes = 1e9; // and what the product reads at the same time
    assert_seconds(m, t, false, 2e9 / (1500e9 * 0.9));
}

// ---- ways ------------------------------------------------------------------------------------

static bool share_a_port(Route a, Route b) {
    for (int i = 0; i < a.num_ports; i++)
        for (int j = 0; j < b.num_ports; j++)
            if (a.ports[i].port == b.ports[j].port) return true;
    return false;
}

// Whether copies from a to b and from c to d wait for each other.
static bool meet(const Machine *machine, int a, int b, int c, int d) {
    return share_a_port(machine_route(machine, a, b), machine_route(machine, c, d));
}

static void assert_link(Route route, double bandwidth, double latency, int num_ports) {
    assert_true(route.link.bandwidth == bandwidth);
    assert_true(route.link.latency == latency);
    assert_int_equal(route.num_ports, num_ports);
}

static void assert_good_route(const Machine *machine, int from, int to, int num_ports) {
    Route route = machine_route(machine, from, to), back = machine_route(machine, to, from);
    assert_true(route.num_ports >= 1 && route.num_ports <= MAX_PORTS);
    assert_true(isfinite(route.link.bandwidth) && route.link.bandwidth > 0);
    assert_link(back, route.link.bandwidth, route.link.latency, route.num_ports);
    if (machine->links != LINKS_HOST)
        assert_false(share_a_port(route, back)); // both ways at a time
    for (int i = 0; i < route.num_ports; i++) {
        assert_in_range(route.ports[i].port, 0, num_ports - 1);
        for (int j = 0; j < i; j++) assert_int_not_equal(route.ports[i].port, route.ports[j].port);
    }
}

static void assert_good_routes(const Machine *machine, int num_devices) {
    int num_ports = machine_ports(machine, num_devices);
    for (int from = 0; from < num_devices; from++) {
        assert_good_route(machine, from, HOST_MEMORY, num_ports);
        for (int to = 0; to < num_devices; to++)
            if (to != from) assert_good_route(machine, from, to, num_ports);
    }
}

static void routes_are_alike_both_ways(void **state) {
    (void)state;
    for (const MachineFile *file = machine_files; file->name; file++) {
        const Machine *machine = machine_find(file->name);
        assert_good_routes(machine, machine->devices);
        if (machine->cards > 0) assert_good_routes(machine, 3 * machine->devices + 1);
    }
    const char *links[] = {"link tree", "link host", "link mesh 3 us\npair 0 1 50 GB/s"};
    for (int i = 0; i < 3; i++) assert_good_routes(with_links(links[i]), 19);
}

static void by_switch(void **state) {
    (void)state;
    const Machine *m = machine_parse("test", whole);
    assert_link(machine_route(m, 0, 5), 300e9, 3e-6, 2);
    assert_false(meet(m, 0, 5, 1, 4));
    assert_true(meet(m, 0, 5, 0, 4)); // out of one
    assert_true(meet(m, 0, 5, 1, 5)); // into one
    assert_false(meet(m, 0, 5, 5, 0));
    assert_false(meet(m, 0, 5, 0, HOST_MEMORY));
}

static void by_tree(void **state) {
    (void)state;
    const Machine *m = with_links("link tree");
    assert_link(machine_route(m, 0, 1), 24e9, 5e-6, 2); // under one root port
    assert_link(machine_route(m, 0, 2), 22e9, 5e-6, 4);
    assert_false(meet(m, 0, 1, 1, 0));
    assert_true(meet(m, 0, 2, 1, 3)); // up one root port
    assert_false(meet(m, 0, 2, 3, 1));
    assert_false(meet(m, 0, 1, 2, 3));
    assert_false(meet(m, 0, 2, 4, 6));
    assert_true(meet(m, 0, 2, 1, HOST_MEMORY)); // up the same root port
    assert_false(meet(m, 0, 1, 1, HOST_MEMORY));
    assert_false(meet(m, 0, 1, HOST_MEMORY, 0));
}

// Each copy goes up and down, even to the neighbour.
static void by_the_hosts_memory(void **state) {
    (void)state;
    const Machine *m = with_links("link host");
    assert_link(machine_route(m, 0, 1), 22e9, 2 * 5e-6, 4);
    assert_link(machine_route(m, 0, 7), 22e9, 2 * 5e-6, 4);
    assert_link(machine_route(m, 0, HOST_MEMORY), 22e9, 5e-6, 2);
    assert_true(meet(m, 0, 1, 1, 0));
    assert_false(meet(m, 0, 2, 2, 0));
}

static void by_mesh(void **state) {
    (void)state;
    const Machine *m = with_links("link mesh 3 us\npair 0 1 50 GB/s\npair 1 2 25 GB/s");
    assert_link(machine_route(m, 0, 1), 50e9, 3e-6, 1);
    assert_link(machine_route(m, 2, 1), 25e9, 3e-6, 1);
    assert_link(machine_route(m, 0, 2), 22e9, 5e-6, 4); // no pair: by PCIe
    assert_false(meet(m, 0, 1, 2, 1));                  // two links into device 1
    assert_false(meet(m, 0, 1, 1, 0));
    assert_false(meet(m, 0, 1, 0, 2));
}

static void to_and_from_the_host(void **state) {
    (void)state;
    const Machine *m = machine_parse("test", whole);
    assert_link(machine_route(m, 3, HOST_MEMORY), 22e9, 5e-6, 2);
    assert_true(meet(m, HOST_MEMORY, 0, HOST_MEMORY, 1)); // down one root port
    assert_false(meet(m, HOST_MEMORY, 0, HOST_MEMORY, 2));
    assert_false(meet(m, HOST_MEMORY, 0, HOST_MEMORY, 8)); // each host has the data
    assert_false(meet(m, HOST_MEMORY, 0, 0, HOST_MEMORY));
}

// Four cards for eight devices.
static void by_network(void **state) {
    (void)state;
    const Machine *m = machine_parse("test", with_line("network", "network 30 GB/s 14 us"));
    assert_link(machine_route(m, 0, 8), 24e9, 14e-6, 4); // PCIe is the slowest part
    assert_link(machine_route(machine_parse("test", whole), 15, 16), 24e9, 14e-6, 4);
    assert_true(meet(m, 0, 8, 1, 10)); // one card out
    assert_false(meet(m, 0, 8, 2, 10));
    assert_true(meet(m, 0, 8, 18, 9)); // one card in
    assert_false(meet(m, 0, 8, 8, 0));
    assert_false(meet(m, 0, 8, 16, 24));
    assert_false(meet(m, 0, 8, 0, 2)); // beside the switch
    assert_true(meet(m, 0, 8, 0, HOST_MEMORY));
}

static void slow_network(void **state) {
    (void)state;
    const Machine *m = machine_find("laptops-1gbe");
    assert_link(machine_route(m, 4, 0), 118e6, 35e-6, 4);
    assert_true(meet(m, 1, 0, 2, 0));
    assert_false(meet(m, 1, 0, 3, 2));
}

static void as_many_devices_as_there_are(void **state) {
    (void)state;
    assert_true(machine_has_devices(machine_find("dgx-a100"), 1024));
    assert_true(machine_has_devices(machine_find("rtx4090-pcie"), 8));
    assert_false(machine_has_devices(machine_find("rtx4090-pcie"), 9));
    assert_false(machine_has_devices(machine_find("rtx4090-pcie"), 0));
    assert_int_equal(machine_ports(machine_find("dgx-a100"), 9),
                     2 * machine_ports(machine_find("dgx-a100"), 8));
}

static void parts_that_are_free(void **state) {
    (void)state;
    const Machine *m = machine_find("dgx-a100");
    const KernelCost product = {.kind = COST_PRODUCT, .flop = 1e12, .bytes = 1e6};
    Machine roomy = machine_with_free(m, FREE_MEMORY), linked = machine_with_free(m, FREE_LINKS);
    Machine hosts = machine_with_free(m, FREE_LINKS | FREE_DEVICES);
    assert_true(isinf(roomy.memory) && linked.memory == m->memory);
    for (int to = HOST_MEMORY; to <= 8; to += 9) { // the host, and a device of another one
        assert_true(machine_route(&roomy, 0, to).link.latency > 0);
        assert_true(machine_route(&linked, 0, to).link.latency == 0);
        assert_true(isinf(machine_route(&linked, 0, to).link.bandwidth));
    }
    assert_true(seconds_of(&linked, product, false) == seconds_of(m, product, false));
    assert_true(seconds_of(&hosts, product, false) == 0);
    assert_true(hosts.kernel == 0 && hosts.graph_kernel == 0 && hosts.launch == m->launch);
}

static void to_itself(void *arg) { machine_route(arg, 3, 3); }
static void too_far(void *arg) { machine_route(arg, 0, 8); }
static void too_many(void *arg) { machine_ports(arg, 9); }

static void ways_that_are_none(void **state) {
    (void)state;
    Machine *machine = (Machine *)(uintptr_t)machine_find("rtx4090-pcie");
    expect_death(EXIT_FAILURE, "a way has two different ends", to_itself, machine);
    expect_death(EXIT_FAILURE, "the machine lacks a device", too_far, machine);
    expect_death(EXIT_FAILURE, "the machine has fewer devices", too_many, machine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_figures_are_read),
        cmocka_unit_test(some_fields_may_be_left_out),
        cmocka_unit_test(forms_of_convolution),
        cmocka_unit_test(figures_of_tf32),
        cmocka_unit_test(text_is_read_as_people_write_it),
        cmocka_unit_test(those_built_in_can_be_read),
        cmocka_unit_test(bandwidths_are_those_of_the_sources),
        cmocka_unit_test(the_mesh_of_dgx_v100),
        cmocka_unit_test(the_table_fits_the_screen),
        cmocka_unit_test(a_file_of_ones_own),
        cmocka_unit_test(wrong_numbers),
        cmocka_unit_test(wrong_units),
        cmocka_unit_test(wrong_fields),
        cmocka_unit_test(wrong_links),
        cmocka_unit_test(fields_that_links_need),
        cmocka_unit_test(too_many_devices_for_links),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(texts_of_those_built_in),
        cmocka_unit_test(files_that_are_not_there),
        cmocka_unit_test(names_of_files_are_names_of_machines),
        cmocka_unit_test(kernels_take_their_arithmetic_or_their_bytes),
        cmocka_unit_test(products_go_in_waves),
        cmocka_unit_test(routes_are_alike_both_ways),
        cmocka_unit_test(by_switch),
        cmocka_unit_test(by_tree),
        cmocka_unit_test(by_the_hosts_memory),
        cmocka_unit_test(by_mesh),
        cmocka_unit_test(to_and_from_the_host),
        cmocka_unit_test(by_network),
        cmocka_unit_test(slow_network),
        cmocka_unit_test(as_many_devices_as_there_are),
        cmocka_unit_test(parts_that_are_free),
        cmocka_unit_test(ways_that_are_none),
    };
    return cmocka_run_group_tests_name("machine", tests, make_test_folder, remove_test_folder);
}
