// main.c: the story of chapter 7. README.md says how to run it and what to read.
#include "common/book.h"
#include "behind/behind.h"

static Flags flags;
static PsLesson lesson;
static double slow[MOST_WORKERS];
static long clocks; // steps of each worker
static Pace pace;

// ## A slow worker

// ## The program

static Prediction ask_how_much_longer(void) {
    return predict_first(
        "Four workers train together, and one of them takes four times as long for everything as "
        "each of the others. How many times as long does synchronous training take as "
        "asynchronous training, for the same number of images?");
}

static Prediction ask_how_stale(void) {
    return predict_first(
        "Four workers train asynchronously. How many pushes of other workers are applied, on "
        "average, between a worker's pull and its next push?");
}

static Prediction ask_whether_it_learns(void) {
    return predict_yes_no(
        "Eight equally fast workers train synchronously, with eight times the learning rate. Do "
        "they end with a test accuracy of more than 0.5?");
}

static void read_flags(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 64;
    defaults.epochs = 2;
    defaults.train_size = 8192;
    defaults.test_size = 1000;
    defaults.next = "make exercise-07-1, or make run-08";
    defaults.own = choice_flags;
    defaults.quick_means = "--epochs 1 --train-size 2048 --test-size 500";
    flags = book_begin(argc, argv,
                       "Trains LeNet with parameter servers, synchronously, asynchronously, and "
                       "between the two.",
                       "seed batch-size lr epochs train-size test-size data", defaults);
    book_needs_machine("the workers' pace");
    check_choices(&flags);
    book_needs_devices(choices.workers + choices.servers);
    if (flags.batch_size < choices.workers || flags.batch_size > flags.train_size)
        die_usage("each worker has at least one row, and all of them fewer than there are images",
                  "--batch-size %d for %d workers and %d images", flags.batch_size,
                  choices.workers, flags.train_size);
}

static void prepare(void) {
    lesson = (PsLesson){.W = choices.workers,
                        .S = choices.servers,
                        .batch_size = flags.batch_size,
                        .lr = flags.lr,
                        .lr_by_staleness = choices.staleness_lr,
                        .seed = flags.seed};
    clocks = (long)flags.epochs * (flags.train_size / flags.batch_size);
    read_slow(slow);
    pace = pace_on(modelled_machine(), &lesson, slow);
}

static void compare_all(void) {
    Prediction longer = ask_how_much_longer();
    double times = show_slow_worker(&pace, clocks);
    predict_compare(longer, times, "times as long");
    book_result("synchronous training took %.2f times as long as asynchronous", times);
    if (has_values(try_gpu(0))) {
        show_bytes(&lesson);
        show_synchronous(&lesson, 10);
    }
    draw_exchanges();
    draw_bounds(&pace);
}

static void train_all(void) {
    Prediction staleness = ask_how_stale();
    predict_compare(staleness, compare_ways(&lesson, &pace, clocks), "pushes");
    show_machines(&lesson, &pace, clocks);
    Prediction learns = ask_whether_it_learns();
    predict_compare_yes_no(learns, compare_rates(&lesson, clocks) > 0.5);
    if (interrupted()) return;
    if (flags.backend != BACKEND_INLINE) { // there, workers take turns
        check_ones(&lesson);
        train_for_real(&lesson, &pace, clocks);
    }
    show_towers(&lesson);
}

static void ask_for_outputs(void) {
    book_csv("_exchange.csv");
    book_output("_exchange.png");
    book_csv("_disciplines.csv");
    book_output("_disciplines.png");
    book_timeline("_slow_worker.png");
    book_timeline("_bounds.png");
    book_check_outputs();
}

static void run(void) {
    finish_on_interrupt();
    if (choices.real)
        train_for_real(&lesson, &pace, clocks);
    else if (one_way())
        train_one_way(&lesson, &pace, chosen_discipline(), clocks);
    else {
        ask_for_outputs();
        compare_all();
        if (has_values(try_gpu(0))) train_all();
    }
}

int main(int argc, char *argv[]) {
    read_flags(argc, argv);
    prepare();
    if (choices.schedule) {
        const char *csv = book_output("_schedule.csv"), *svg = book_timeline("_schedule.svg");
        book_check_outputs();
        model_schedule(&pace, chosen_discipline(), clocks, csv, svg);
        return book_end();
    }
    lesson.train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    lesson.test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    run();
    dataset_free((Dataset *)lesson.train_data);
    dataset_free((Dataset *)lesson.test_data);
    return book_end();
}
