// modelled_scaling.c: see modelled_scaling.h.
#include "modelled_scaling.h"

#include "common/base/file.h"
#include "common/program/book.h"
#include "common/program/plot.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "many_ranks.h"

#include <math.h>
#include <stdio.h>

// ## What was published

static NetworkTable inception_v3_alone(void) { return inception_v3(false); }

const PublishedScaling published_scalings[NUM_PUBLISHED_SCALINGS] = {
    {inception_v3_alone, 134.4, 2022.6, 1345.8, 0.90},
    {resnet101, 119.4, 1746.2, 959.6, 0.90},
    {vgg16, 130.9, 1787.4, 74.7, 0.68},
};

// ## What is modelled
//
// Each network on devices as fast as the machine's file says, and on devices on which one alone
// makes as many images per second as was measured. Nothing else is changed, so the second says
// which part of a difference is not the network cards' fault. And those once more with messages
// sent by Horovod's own rule.

enum { NUM_RANKS = 9, AT_16 = 3, AT_512 = 8 };
static const int num_ranks[NUM_RANKS] = {1, 4, 8, 16, 32, 64, 128, 256, 512};
// Horovod's tensor fusion of that time (docs/tensor-fusion.rst; the cycle in operations.cc).
static const Fusion when_64_mib = {.bytes = 64 << 20}, every_5_ms = {64 << 20, 0.005};

typedef struct Scaling {
    const PublishedScaling *published;
    NetworkTable network;
    RankStep rank, measured; // alone; measured: as fast as published
    ScaledStep steps[NUM_RANKS], at_speed[NUM_RANKS];
    ScaledStep by_clock[NUM_RANKS]; // at the measured speed, too, a message every 5 ms
} Scaling;

static double images_per_second_alone(const RankStep *rank) {
    return PUBLISHED_IMAGES / rank_seconds(rank);
}

static double speed_measured(const Scaling *s) {
    return s->published->one / images_per_second_alone(&s->rank);
}

static Scaling scaling_of(const Machine *machine, const PublishedScaling *published) {
    Scaling s = {.published = published, .network = published->network()};
    s.rank = rank_step(machine, &s.network, PUBLISHED_IMAGES, false);
    s.measured = faster_rank(&s.rank, speed_measured(&s));
    for (int i = 0; i < NUM_RANKS; i++) {
        s.steps[i] = scaled_step(machine, &s.network, &s.rank, BY_RING, when_64_mib, num_ranks[i]);
        s.at_speed[i] =
            scaled_step(machine, &s.network, &s.measured, BY_RING, when_64_mib, num_ranks[i]);
        s.by_clock[i] =
            scaled_step(machine, &s.network, &s.measured, BY_RING, every_5_ms, num_ranks[i]);
    }
    return s;
}

static double published_at_16(const PublishedScaling *p) { return p->sixteen / (16 * p->one); }

// ## Tables

static void print_steps(const Scaling s[]) {
    say("\nmodelled: ms of a step, images/s and efficiency, of %s, %s and %s", s[0].network.name,
        s[1].network.name, s[2].network.name);
    Table t = TABLE(NULL, WHOLE("ranks", .width = 5), WHOLE("ms", .width = 5), FIXED("images/s", 1),
                    FIXED("eff., %", 1), WHOLE("ms", .width = 5), FIXED("images/s", 1),
                    FIXED("eff., %", 1), WHOLE("ms", .width = 5), FIXED("images/s", 1),
                    FIXED("eff., %", 1));
    for (int i = 0; i < NUM_RANKS; i++) {
        table_numbers(&t, num_ranks[i]);
        for (int n = 0; n < NUM_PUBLISHED_SCALINGS; n++)
            table_numbers(&t, 1e3 * s[n].steps[i].seconds,
                          num_ranks[i] * PUBLISHED_IMAGES / s[n].steps[i].seconds,
                          100 * s[n].steps[i].efficiency);
    }
}

static void print_published(const Scaling s[]) {
    say("\nOn one GPU, images/s; on 16 and 512, efficiency in %%");
    Table t = TABLE(NULL, WORDS("", 12), FIXED("1: model", 1), FIXED("publ.", 1),
                    FIXED("16: model", 1), FIXED("[a]", 1, .width = 5), FIXED("[b]", 1, .width = 5),
                    FIXED("publ.", 1), FIXED("512: model", 1), FIXED("[a]", 1, .width = 5),
                    FIXED("[b]", 1, .width = 5), WHOLE("publ.", .width = 5));
    static const int at[] = {AT_16, AT_512};
    for (int n = 0; n < NUM_PUBLISHED_SCALINGS; n++) {
        const PublishedScaling *p = s[n].published;
        const double published[] = {published_at_16(p), p->efficiency_512};
        table_text(&t, "%s", s[n].network.name);
        table_numbers(&t, images_per_second_alone(&s[n].rank), p->one);
        for (int i = 0; i < 2; i++)
            table_numbers(&t, 100 * s[n].steps[at[i]].efficiency,
                          100 * s[n].at_speed[at[i]].efficiency,
                          100 * s[n].by_clock[at[i]].efficiency, 100 * published[i]);
    }
    say("  [a] if one GPU were as fast as measured. [b] The same, with a message every 5 ms. "
        "Published (publ.) are measurements: github.com/horovod/horovod, "
        "README.md of September 2017 (1 and 16 GPUs), "
        "docs/benchmarks.rst (512 GPUs, since May 2018).");
}

// ## Reasons

// Which part of the multiplications is in 3x3 convolutions at each pixel: for these cuDNN has an
// algorithm that needs fewer (Winograd's).
static double share_of_3x3(const NetworkTable *network) {
    double macs = 0;
    for (int l = 0; l < network->num_layers; l++) {
        const Window *w = &network->layers[l].window;
        if (network->layers[l].kind == TABLE_CONVOLUTION && w->h == 3 && w->w == 3 &&
            w->stride == 1)
            macs += table_layer_macs(&network->layers[l]);
    }
    return macs / table_macs(network);
}

static void explain_speed(const Scaling *s) {
    double times = speed_measured(s);
    say("\n  %s. One GPU was measured to be %.2f times as fast as modelled. %.0f %% of its "
        "multiplications are in 3x3 convolutions, for which cuDNN has an algorithm (Winograd's) "
        "that needs fewer than are counted here.",
        s->network.name, times, 100 * share_of_3x3(&s->network));
    if (times < 1)
        say("    That it is slower all the same: its %d layers are small and of many shapes, and "
            "to put its branches together takes time that the table does not have.",
            s->network.num_layers);
}

// Of the step's exchanges, what is not hidden behind backward.
static void explain_exchange(const Scaling *s) {
    const ScaledStep *step = &s->at_speed[AT_512];
    double shown = step->seconds - rank_seconds(&s->measured);
    say("    %.0f MB of gradients take %.0f ms to exchange on 512 ranks, in %d messages, and a "
        "step without exchange %.0f ms at the measured speed. %.0f ms stick out: messages that "
        "are still on their way when backward is done, at least the last one.",
        table_params(&s->network) * sizeof(float) / 1e6, 1e3 * step->exchanging, step->messages,
        1e3 * rank_seconds(&s->measured), 1e3 * shown);
}

static double efficiency_with_card(const Machine *machine, const Scaling *s, double bandwidth,
                                   int ranks) {
    Machine slower = *machine;
    slower.network.bandwidth = bandwidth;
    return scaled_step(&slower, &s->network, &s->measured, BY_RING, when_64_mib, ranks).efficiency;
}

// Bytes per second of a card with which the model would come to this efficiency: the slower, the
// lower. Not more than the card has.
static double card_for(const Machine *machine, const Scaling *s, double efficiency, int ranks) {
    double low = 0, high = machine->network.bandwidth;
    for (int i = 0; i < 20; i++) {
        double middle = (low + high) / 2;
        if (efficiency_with_card(machine, s, middle, ranks) < efficiency)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static void explain_rest(const Machine *machine, const Scaling *s) {
    double published = s->published->efficiency_512;
    say("    So at that speed %.1f %% are modelled, and %.0f %% were published. With a card of "
        "%.2g GB/s instead of %.2g the model would say so, too; and for the figure on 16 GPUs with "
        "one of %.2g.",
        100 * s->at_speed[AT_512].efficiency, 100 * published,
        card_for(machine, s, published, 512) / 1e9, machine->network.bandwidth / 1e9,
        card_for(machine, s, published_at_16(s->published), 16) / 1e9);
}

// Its index. That of a linear layer is one tensor, but for the biases.
static int largest_layer(const NetworkTable *network) {
    int largest = 0;
    for (int l = 1; l < network->num_layers; l++)
        if (table_layer_params(&network->layers[l]) > table_layer_params(&network->layers[largest]))
            largest = l;
    return largest;
}

static double largest_bytes(const NetworkTable *network) {
    return table_layer_params(&network->layers[largest_layer(network)]) * sizeof(float);
}

static double exchange_share(const Scaling *s) {
    return s->at_speed[AT_512].exchanging / rank_seconds(&s->measured);
}

// Points of efficiency that a card loses on 512 ranks by being 10 % slower.
static double points_lost(const Machine *machine, const Scaling *s) {
    double slower = efficiency_with_card(machine, s, 0.9 * machine->network.bandwidth, 512);
    return 100 * (s->at_speed[AT_512].efficiency - slower);
}

static void explain_busy_network(const Machine *machine, const Scaling s[], const Scaling *vgg) {
    Machine slower = *machine;
    slower.network.bandwidth *= 0.9;
    const ScaledStep *step = &vgg->at_speed[AT_512];
    ScaledStep late =
        scaled_step(&slower, &vgg->network, &vgg->measured, BY_RING, when_64_mib, 512);
    say("  So whatever slows the network down makes the whole step longer. With a card 10 %% "
        "slower the exchanges take %.0f ms more, and the step %.0f ms: %.1f points of efficiency "
        "are lost. %s loses %.1f points by it and %s %.1f, as there most of the exchange is still "
        "hidden. So %s differs by more from what was published, and yet the slow card that would "
        "explain it, above, is the least slow of the three: nothing has to be slower for it than "
        "for the others. What it was, these figures cannot say.",
        1e3 * (late.exchanging - step->exchanging), 1e3 * (late.seconds - step->seconds),
        points_lost(machine, vgg), s[0].network.name, points_lost(machine, &s[0]),
        s[1].network.name, points_lost(machine, &s[1]), vgg->network.name);
}

static void explain_vgg(const Machine *machine, const Scaling s[]) {
    const Scaling *vgg = &s[2];
    const RankStep *rank = &vgg->measured;
    double ready = rank->ready[largest_layer(&vgg->network)];
    say("\n  Why is %s furthest from what was published, %.1f against %.0f %%? It has the most to "
        "send in the time that it computes: its exchanges on 512 ranks take %.0f %% of a step "
        "without exchange, those of %s %.0f and of %s %.0f. Most of it is in one tensor, of %.0f "
        "MB, of the linear layers. These come last, so their gradients are ready first, after "
        "%.0f ms. Backward goes on for another %.0f ms, but the exchanges take %.0f: from then on "
        "the network is never idle.",
        vgg->network.name, 100 * vgg->at_speed[AT_512].efficiency,
        100 * vgg->published->efficiency_512, 100 * exchange_share(vgg), s[0].network.name,
        100 * exchange_share(&s[0]), s[1].network.name, 100 * exchange_share(&s[1]),
        largest_bytes(&vgg->network) / 1e6, 1e3 * ready, 1e3 * (rank->backward - ready),
        1e3 * vgg->at_speed[AT_512].exchanging);
    explain_busy_network(machine, s, vgg);
}

static double efficiency_of_32_images(const Machine *machine, const Scaling *s) {
    RankStep few = rank_step(machine, &s->network, PUBLISHED_IMAGES / 2, false);
    few = faster_rank(&few, speed_measured(s));
    return scaled_step(machine, &s->network, &few, BY_RING, when_64_mib, 512).efficiency;
}

static void explain(const Machine *machine, const Scaling s[]) {
    for (int n = 0; n < NUM_PUBLISHED_SCALINGS; n++) {
        explain_speed(&s[n]);
        explain_exchange(&s[n]);
        explain_rest(machine, &s[n]);
    }
    say("\n  No card has to be that slow. The model leaves out what else takes time: "
        "ranks that are late (all wait for the slowest of 512), switches that hosts share, "
        "copies into the buffer of a message and out of it, "
        "and that all ranks first agree, every 5 ms, on what is ready.");
    explain_vgg(machine, s);
    say("\n  The table has 64 images on each GPU, as Horovod's documents do; a maintainer once "
        "said 32 (github.com/horovod/horovod/issues/425). Then there is half the time to hide the "
        "same bytes behind, and the model says %.1f, %.1f and %.1f %% on 512, at the measured "
        "speed: less than published, and least for %s.",
        100 * efficiency_of_32_images(machine, &s[0]),
        100 * efficiency_of_32_images(machine, &s[1]),
        100 * efficiency_of_32_images(machine, &s[2]), s[2].network.name);
}

// ## Three ways
//
// One network, three ways to exchange, and two rules for when a message is sent.

enum { NUM_RULES = 2 };
static const Fusion *const rules[NUM_RULES] = {&when_64_mib, &every_5_ms};
static const char *const rule_names[NUM_RULES] = {"64 MiB", "5 ms"};

typedef struct Ways {
    double message[NUM_EXCHANGE_WAYS][NUM_RANKS]; // seconds of 64 MiB alone
    ScaledStep steps[NUM_RULES][NUM_EXCHANGE_WAYS][NUM_RANKS];
} Ways;

static Ways compare_ways(const Machine *machine, const Scaling *s) {
    Ways ways;
    for (ExchangeWay w = 0; w < NUM_EXCHANGE_WAYS; w++)
        for (int i = 0; i < NUM_RANKS; i++) {
            int k = num_ranks[i];
            ways.message[w][i] = exchange_model(machine, w, k, when_64_mib.bytes, false).seconds;
            for (int r = 0; r < NUM_RULES; r++)
                ways.steps[r][w][i] = scaled_step(machine, &s->network, &s->rank, w, *rules[r], k);
        }
    return ways;
}

static void print_ways(const Scaling *s, const Ways *ways) {
    say("\n%s: a message of 64 MiB, ms; efficiency in %%, sent at 64 MiB and every 5 ms",
        s->network.name);
    Table t =
        TABLE(NULL, WHOLE("ranks", .width = 5), FIXED("ms: ring", 1), FIXED("hier.", 1),
              FIXED("servers", 1), FIXED("64 MiB: ring", 1), FIXED("hier.", 1), FIXED("servers", 1),
              FIXED("5 ms: ring", 1), FIXED("hier.", 1), FIXED("servers", 1));
    for (int i = 1; i < NUM_RANKS; i++) {
        table_numbers(&t, num_ranks[i]);
        for (int w = 0; w < NUM_EXCHANGE_WAYS; w++) table_numbers(&t, 1e3 * ways->message[w][i]);
        for (int r = 0; r < NUM_RULES; r++)
            for (int w = 0; w < NUM_EXCHANGE_WAYS; w++)
                table_numbers(&t, 100 * ways->steps[r][w][i].efficiency);
    }
}

static void explain_ways(const Machine *machine, const Scaling *s, const Ways *ways) {
    const int D = machine->devices, H = 512 / D;
    const double MB = 1e6, message = when_64_mib.bytes;
    say("  By ring and in two levels each byte leaves a host at most twice "
        "(%.0f and %.0f MB of a message of %.0f); with servers, "
        "to which each of %d ranks pushes and from which it pulls, %.0f MB do. "
        "What they differ in is what comes one after the other. "
        "The ring has 2 (k-1) = %d steps, "
        "and each takes at least the network's %.0f us and an addition: "
        "a message takes %.0f ms even if it carries next to nothing. "
        "In two levels there are %d, of which %d in the host.",
        exchange_card_bytes(BY_RING, H, D, message) / MB,
        exchange_card_bytes(BY_LEVELS, H, D, message) / MB, message / MB, D,
        exchange_card_bytes(BY_SERVERS, H, D, message) / MB, 2 * 511,
        1e6 * machine->network.latency,
        1e3 * exchange_model(machine, BY_RING, 512, 4, false).seconds, 2 * (H - 1) + 2 * (D - 1),
        2 * (D - 1));
    say("  So with few large messages it hardly matters which of the two it is, "
        "and the ring need not wait for PCIe before and after the network. "
        "What sticks out then is the last message. "
        "Sent every 5 ms, as Horovod's clock has it, there are %d messages, the last one small, "
        "and nothing sticks out as long as they keep up: %.1f %% in two levels on 512 ranks. "
        "In our ring they do not, %.1f %%. As %.0f %% were published, "
        "either NCCL's ring has less to wait for "
        "(it is one kernel, which passes small pieces on at once), "
        "or fewer messages were sent.",
        ways->steps[1][BY_LEVELS][AT_512].messages,
        100 * ways->steps[1][BY_LEVELS][AT_512].efficiency,
        100 * ways->steps[1][BY_RING][AT_512].efficiency, 100 * s->published->efficiency_512);
}

static void explain_servers(const Machine *machine, const Scaling *s, const Ways *ways,
                            const Scaling *vgg) {
    double bytes = largest_bytes(&vgg->network);
    const PublishedScaling *p = s->published, *v = vgg->published;
    say("  Parameter servers were measured, too, on 16 GPUs: %.0f %% for %s, here %.1f %%, and "
        "%.0f %% for %s. Ours have equal parts of everything; TensorFlow's had whole tensors. The "
        "server with %s's largest, of %.0f MB, has to receive and send it 16 times: %.1f s at "
        "%.2g GB/s, where a step without exchange takes %.1f s.",
        100 * p->servers_sixteen / (16 * p->one), s->network.name,
        100 * ways->steps[0][BY_SERVERS][AT_16].efficiency,
        100 * v->servers_sixteen / (16 * v->one), vgg->network.name, vgg->network.name, bytes / 1e6,
        2 * 16 * bytes / machine->network.bandwidth, machine->network.bandwidth / 1e9,
        rank_seconds(&vgg->measured));
}

// ## Files

static void write_row(FILE *csv, const char *network, const char *way, const char *rule,
                      const char *speed, int ranks, double efficiency, double one) {
    fprintf(csv, "%s,%s,%s,%s,%d,%.6g,%.6g\n", network, way, rule, speed, ranks,
            ranks * one * efficiency, efficiency);
}

static void write_scaling(FILE *csv, const Scaling *s) {
    const PublishedScaling *p = s->published;
    const char *name = s->network.name, *ring = exchange_way_names[BY_RING];
    double alone = images_per_second_alone(&s->rank);
    for (int i = 0; i < NUM_RANKS; i++) {
        write_row(csv, name, ring, rule_names[0], "modelled", num_ranks[i], s->steps[i].efficiency,
                  alone);
        write_row(csv, name, ring, rule_names[0], "measured", num_ranks[i],
                  s->at_speed[i].efficiency, p->one);
        write_row(csv, name, ring, rule_names[1], "measured", num_ranks[i],
                  s->by_clock[i].efficiency, p->one);
    }
    write_row(csv, name, "published", "", "", 1, 1, p->one);
    write_row(csv, name, "published", "", "", 16, published_at_16(p), p->one);
    write_row(csv, name, "published", "", "", 512, p->efficiency_512, p->one);
}

static void write_ways(FILE *csv, const Scaling *s, const Ways *ways) {
    for (int r = 0; r < NUM_RULES; r++)
        for (int w = 0; w < NUM_EXCHANGE_WAYS; w++)
            for (int i = 0; i < NUM_RANKS; i++)
                if (r > 0 || w != BY_RING) // that is there already
                    write_row(csv, s->network.name, exchange_way_names[w], rule_names[r],
                              "modelled", num_ranks[i], ways->steps[r][w][i].efficiency,
                              images_per_second_alone(&s->rank));
}

static void draw(const Scaling s[], const Scaling *compared, const Ways *ways) {
    const char *csv = book_output("_scaling.csv"), *png = book_output("_scaling.png");
    OutputFile out = output_open(csv);
    fprintf(out.stream, "network,way,sent,speed,ranks,images_per_second,efficiency\n");
    for (int n = 0; n < NUM_PUBLISHED_SCALINGS; n++) write_scaling(out.stream, &s[n]);
    write_ways(out.stream, compared, ways);
    output_close(&out);
    if (plot_draw(png, "scaling.gp", csv)) printf("\nscaling: %s, figures: %s\n", png, csv);
}

// ## All of it

// The rule for messages decides so much that it has to be said first.
static void explain_rule(const Machine *machine, const Scaling s[]) {
    const double message = exchange_model(machine, BY_RING, 512, 4, false).seconds;
    say("\nThe rule for messages is not Horovod's. It sent, every 5 ms, what was ready, up to 64 "
        "MiB. By that rule the model says %.1f, %.1f and %.1f %% on 512 ranks, if one GPU is as "
        "fast as was measured; by the rule of these tables it says %.1f, %.1f and %.1f %%, and "
        "%.0f, %.0f and %.0f %% were published. So much depends on the rule, and that figures of "
        "one are nearer to the published ones does not show that the model is right.",
        100 * s[0].by_clock[AT_512].efficiency, 100 * s[1].by_clock[AT_512].efficiency,
        100 * s[2].by_clock[AT_512].efficiency, 100 * s[0].at_speed[AT_512].efficiency,
        100 * s[1].at_speed[AT_512].efficiency, 100 * s[2].at_speed[AT_512].efficiency,
        100 * s[0].published->efficiency_512, 100 * s[1].published->efficiency_512,
        100 * s[2].published->efficiency_512);
    say("Why not Horovod's rule, then? By it, the model's ring is mostly waiting: on 512 ranks a "
        "message takes %.0f ms even if it is empty, as each of its steps waits for the one before, "
        "and such messages cannot keep up with one every 5 ms. How much of that NCCL's ring has, "
        "we do not know. With few large messages it is the bytes that count, and these "
        "we know. Column [b] of the second table, and the last table, have Horovod's rule.",
        1e3 * message);
}

static void explain_table(const Machine *machine, const Scaling s[]) {
    say("\nModelled, not measured: up to 512 ranks on %s (%s), %d images each, one ring, "
        "a message for each 64 MiB of gradients, beside backward.",
        machine->name, machine->about, PUBLISHED_IMAGES);
    explain_rule(machine, s);
    say("\nA step in ms, images per second in all, and efficiency: images per second on k ranks, "
        "divided by k times those of one:");
}

void show_modelled_scaling(void) {
    const Machine *machine = machine_find("p100-25gbe");
    Scaling scalings[NUM_PUBLISHED_SCALINGS];
    for (int n = 0; n < NUM_PUBLISHED_SCALINGS; n++)
        scalings[n] = scaling_of(machine, &published_scalings[n]);
    const Scaling *resnet = &scalings[1], *vgg = &scalings[2];
    Ways ways = compare_ways(machine, resnet);
    explain_table(machine, scalings);
    print_steps(scalings);
    say("\nNext to what Horovod's authors measured and published:");
    print_published(scalings);
    explain(machine, scalings);
    say("\nThree ways to exchange, modelled on the same machines:");
    print_ways(resnet, &ways);
    explain_ways(machine, resnet, &ways);
    explain_servers(machine, resnet, &ways, vgg);
    draw(scalings, resnet, &ways);
}
