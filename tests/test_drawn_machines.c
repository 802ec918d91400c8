// test_drawn_machines.c: machines that are drawn for students (tests/grader/draw.sh). A thousand of
// them are within their bounds, what the labs show holds on each, and few have the same answers.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "cases.h"

enum { STUDENTS = SANITIZED ? 100 : 1000, KIB = 1 << 8, MIB_64 = 1 << 24 }; // floats

static const Machine *drawn(int student) {
    char command[80], text[4096];
    snprintf(command, sizeof command, "sh tests/grader/draw.sh student-%d", student);
    FILE *file = popen(command, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_int_equal(pclose(file), 0);
    return machine_parse("my.machine", text);
}

static void within(double value, double least, double most) {
    if (!(value >= 0.999 * least && value <= 1.001 * most)) // of three digits
        fail_msg("%g is not within %g and %g", value, least, most);
}

// Lab 2: the ring (and the sharded sum) for large vectors, star and tree for small ones.
static double times_of_sums(const Machine *m) {
    double star = modelled_allreduce(m, allreduce_star, m->devices, MIB_64);
    double ring = modelled_allreduce(m, allreduce_ring, m->devices, MIB_64);
    double sharded = modelled_allreduce(m, allreduce_sharded, m->devices, MIB_64);
    assert_true(ring < 0.7 * star && sharded < 0.7 * star);
    double small_ring = modelled_allreduce(m, allreduce_ring, m->devices, KIB);
    assert_true(modelled_allreduce(m, allreduce_tree, m->devices, KIB) < 0.7 * small_ring);
    assert_true(modelled_allreduce(m, allreduce_star, m->devices, KIB) < 0.8 * small_ring);
    return star;
}

TEST(lessons_hold_on_a_thousand_machines) {
    static double star[STUDENTS];
    int near = 0, with[9] = {0};
    for (int s = 0; s < STUDENTS; s++) {
        const Machine *m = drawn(s);
        assert_true(m->devices >= 4 && m->devices <= 8);
        with[m->devices]++;
        within(m->fp32, 12e12, 24e12);
        within(m->memory_bandwidth, 900e9, 2000e9);
        within(m->launch, 1.5e-6, 5e-6);
        within(m->link.bandwidth, 60e9, 280e9);
        within(m->link.latency, 2.5e-6, 8e-6);
        within(m->host_link.bandwidth, 10e9, 25e9);
        within(m->host_link.latency, 4e-6, 9e-6);
        within(m->network.bandwidth, 3e9, 20e9);
        within(m->network.latency, 10e-6, 30e-6);
        assert_true(m->network.bandwidth < 0.5 * m->link.bandwidth);
        star[s] = times_of_sums(m);
        for (int other = 0; other < s; other++) near += fabs(star[other] / star[s] - 1) <= 0.02;
    }
    for (int k = 4; k <= 8; k++) assert_true(with[k] > STUDENTS / 10);
    // What two students calculate is seldom the same to 2 %. (Of the first hundred, 3.7 % are.)
    assert_true(near < (SANITIZED ? 0.05 : 0.03) * STUDENTS * (STUDENTS - 1) / 2);
}

int main(void) { return run_all("drawn_machines", NULL, devices_end); }
