// main.c: the story of chapter 8. README.md says how to run it and what to read.
#include "common/book.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "behind/behind.h"

static Flags flags;
static Dataset *train_data, *test_data;
static RankLesson lesson;

// ## Ranks
//
// A program runs on one machine, which has at most eight or sixteen devices. To use more, start the
// program many times, on all machines, and let the processes exchange messages. Each process is a
// *rank*. Here is one training step of four ranks on two machines:
//
//                    machine one              machine two
//                    rank 0      rank 1     | rank 2      rank 3
//     has            parameters  parameters | parameters  parameters   equal on all
//     1. load        images A    images B   | images C    images D     64 on each, all different
//     2. forward     loss A      loss B     | loss C      loss D
//     3. backward    gradient A  gradient B | gradient C  gradient D
//     4. sum         A+B+C+D     A+B+C+D    | A+B+C+D     A+B+C+D      by messages
//     5. update      parameters  parameters | parameters  parameters   equal again
//
// The ranks need each other only in step 4. Each rank knows three numbers:
//
// | number       | meaning                               | `mpirun` sets                | `torchrun` sets |
// |:-------------|:--------------------------------------|:-----------------------------|:----------------|
// | *world size* | the number of ranks, W | `OMPI_COMM_WORLD_SIZE`       | `WORLD_SIZE`    |
// | *rank* | the number of this rank, 0 to W-1 | `OMPI_COMM_WORLD_RANK`       | `RANK`          |
// | *local rank* | its number on its machine, from 0 | `OMPI_COMM_WORLD_LOCAL_RANK` | `LOCAL_RANK`    |
//
// A *launcher* starts the ranks and helps them find each other (the *rendezvous*). Each line below
// starts two ranks on each of two machines, the second line with PyTorch:
//
//     mpirun -np 4 -H one:2,two:2 build/08_many_machines
//     torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint one:29500 train.py
//
// You start `mpirun` once, and it reaches the other machine by ssh. You start `torchrun` on each
// machine, and the ranks meet at the *endpoint*, a port on one of the machines. Our C program uses
// *MPI*, the Message Passing Interface. `MPI_Init_thread()` returns when all ranks have met.
//
// ranks.c:find_the_others
//
// The local rank decides which device a rank uses: local rank 2 takes GPU 2 of its machine. (The
// rank itself would not work, because rank 5 may be on a machine with four GPUs.)
//
// ranks.c:open_device
//
// If the launcher shows each rank only one GPU (`CUDA_VISIBLE_DEVICES`), that GPU is number 0. The
// program also detects ranks that share a GPU.
//
// All ranks run the same program, but only rank 0 prints:
//
// behind/tables.c:show_ranks
//
// With `-H one:2,two:2`, it would print "4 ranks on 2 hosts", with local ranks 0, 1, 0 and 1, and
// the same bits. (`tests/hosts_test.sh` checks this on two hosts simulated with Linux network
// namespaces.) On a cluster, Slurm assigns the machines to jobs, and its `srun` starts the ranks.
// [`job.sbatch`](job.sbatch) explains a job line by line.

// ## A sum between two processes
//
// Ranks share no memory, so they send each other messages. Two ranks sum their vectors:
//
//                 rank 0                 rank 1
//     has         [1 2]                  [3 4]
//     message 1                     <-   sends [3 4]
//     adds        [1 2] + [3 4]
//     message 2   sends [4 6]       ->
//     has         [4 6]                  [4 6]
//
// This is chapter 2's star. There, the host did all the work. Here, each rank does its own part,
// for any number of ranks:
//
// star.c:all_reduce_star
//
// `send_to()` calls `MPI_Isend()`, which returns at once, and then `MPI_Test()` until the message
// has left. `receive_from()` does the same with `MPI_Irecv()`. A function that all ranks call and
// that exchanges such messages is a *collective*. Chapter 2's other algorithms are written like the
// star and keep chapter 2's order of additions. So sums over four ranks are bit-identical to sums
// over four devices in one process. (`MPI_Allreduce()` promises no order.)
//
// main.c:ask_about_the_star
//
// behind/tables.c:show_collectives
//
// (The bits are compared with chapter 2's algorithm of the same name. Different algorithms may give
// different bits.) In the star, everything passes through rank 0, which sends three whole vectors.
// In the sharded sum and the ring, each rank sends $2 (k-1)/k = 1.5$ vectors, as in chapter 2. In
// the tree, rank 0 sends only two whole vectors.
//
// GPUs use NVIDIA's NCCL instead, which knows the fast links between them. MPI only connects its
// ranks (`nccl.c`).

static Prediction ask_about_the_star(void) {
    return predict_first("Four ranks sum four vectors with the star, each with LeNet's 129,068 "
                         "numbers of 4 bytes. About how many bytes does rank 0 send?");
}

// ## Five steps in code
//
// [Horovod](https://github.com/horovod/horovod) made this kind of training popular. The example in
// its README turned a program for one GPU into one for many with five changes:
//
// ```python
// hvd.init()                                                      # 1. find the other ranks
// config.gpu_options.visible_device_list = str(hvd.local_rank())  # 2. pin a GPU
// opt = tf.train.AdagradOptimizer(0.01 * hvd.size())              # 3. scale the learning rate
// opt = hvd.DistributedOptimizer(opt)                             # 4. sum the gradients
// hooks = [hvd.BroadcastGlobalVariablesHook(0)]                   # 5. start as rank 0
// ```
//
// (Quoted, not run here.) You have seen steps 1 and 2, and step 3 is explained below. Step 5 gives
// all ranks rank 0's parameters.
//
// step.c:broadcast_from_rank_0
//
// (*Buffers* are the running statistics of batch norm. They have no gradients to sum, so
// `broadcast_buffers()` also sends rank 0's to all before each step, as DDP does. LeNet has none.)
//
// Step 4 sums the gradients before each update. Chapter 6's DDP does so whenever a bucket is ready.
// We leave DDP unchanged and give it another function for the sum, with its option `sum`.
//
// step.c:sum_over_ranks
//
// The update divides the sum by the number of rows on all ranks, `rows` below, so it becomes a
// mean. Steps 3 and 4 do not scale twice. Step 4 gives the mean gradient of a larger minibatch, and
// step 3 sets the rate for it.
//
// training.c:train_epoch
//
// Horovod's five lines leave some things to you. Each rank must load *different* images, so
// `rank_data_next()` uses chapter 6's sampler. All ranks must end an epoch in the same step, so
// this function returns 0 on all at once. If training is interrupted, all must stop in the same
// step, too, so `loss_of_all()` sums the losses and whether a rank has been interrupted.
//
// After each epoch, only rank 0 writes the checkpoint (`--checkpoint`).
//
// behind/tables.c:show_training
//
// In the first epoch, LeNet stays on its plateau (chapter 4). From the book's small weights, a
// larger rate does not help: with 0.3 for one, LeNet was still there after both epochs. (The Python
// program starts from PyTorch's own weights, and has no plateau.) The last number is a checksum of
// all parameters, which the program compares between ranks.
//
// ## When one hangs
//
// When many processes run, one can fail while the others wait for it. If a rank *dies*, the
// launcher notices and ends the others. If it *hangs*, its process still exists, and the launcher
// notices nothing. The others cannot tell it from a slow rank, because no message arrives.
//
// So each rank has a second thread, the *watch*. It measures how long its rank has waited in a
// collective without receiving a message. If that is too long, it asks the watches of all other
// ranks where they are. They answer even while their ranks compute. With `--timeout 3`:
//
//     seconds   ranks 0, 1 and 3                   | rank 2
//     0         enter a sum and wait for messages  | is stopped before the sum, with its watch
//     2         ask all others: where are you?     |
//     2         answer each other: in this sum     | does not answer
//     3         "rank 2 has not answered": the end |
//
// watch.c:watch
//
// The watch names a rank that has not answered. If there is none, it names one in an earlier
// collective, or else one in a different collective. Here, a signal stops rank 2 in step 5:
//
// recorded:hang
//
// The three others report rank 2, its host, the collective, the bucket and the step. Then the job
// ends with status 1. It is collective 15 = 6 + 4 × 2 + 1. Each step has two, a bucket's sum and
// the losses' sum. Six precede training: ranks gather hosts, devices and settings in five, and the
// sixth broadcasts the parameters.
//
// | what goes wrong | who notices | what happens |
// |:----------------|:------------|:-------------|
// | a rank has an error, runs out of memory, or is killed | the rank itself, or a child process that reports a sudden exit | the launcher ends the others |
// | a rank hangs or loses its network | the watches of the others | they name it and end the job |
// | ranks call different collectives | the watch | it says which rank is in which |
// | ranks have different flags, programs, images or CPUs | all, at the start | the job ends and shows both values |
// | the loss is not a number | all, after the step | the job ends |
// | the disk of rank 0 is full | rank 0 | the job ends, and the last checkpoint stays intact |
//
// Besides `stop`, `--plant` accepts `kill`, `exit` and `memory` for the first row and `nan` for the
// fifth. Exercise 2 covers the third row.
//
// ## How gradients travel
//
// Even the smallest message has a latency, so gradients travel together. DDP forms its buckets
// before training. Horovod does not know the model, and TensorFlow computes gradients on several
// threads, so they become ready in a different order on each rank. So its ranks vote every few
// milliseconds, in a *cycle*. The gradients that are ready on all ranks are copied into one buffer
// and summed as one vector. This is *tensor fusion* (`fusion.c`).
//
// If several ranks share a host, they can add up inside the host first, so that less data crosses
// the network (`hierarchical.c`). Here, S01 is the sum over ranks 0 and 1, and S is the sum over
// all four:
//
//                                                 host 0         host 1
//                                                 rank 0  rank 1 | rank 2  rank 3
//     1. inside each host: reduce-scatter  part 0   S01          |   S23
//                                          part 1           S01  |           S23
//     2. across the hosts: allreduce       part 0   S            |   S
//                                          part 1           S    |           S
//     3. inside each host: all-gather      part 0   S       S    |   S       S
//                                          part 1   S       S    |   S       S
//
// If the four ranks pretend to be on two hosts, rank 0 sends this in one step of LeNet:
//
// behind/tables.c:show_exchanges
//
// All five methods send nearly the same number of bytes, but in different numbers of messages. To
// sum the losses, rank 0 always sends 3. In a sharded sum it sends 6, three parts and then its own
// part's sum three times:
//
// - LeNet's 8 separate gradients take 8 × 6 + 3 = 51. (Two of them, with 50 and 10 numbers, cannot
//   be cut into four equal parts. Rank 0's parts are half a number longer, which costs 8 bytes.)
// - They fill three buckets of at least 64 KiB, since no gradient is cut in two. These take 3 × 6 +
//   3 = 21 messages, and one bucket takes 6 + 3 = 9.
// - With fusion, a cycle has a vote (3 messages) and, if gradients are ready, a sum. With one
//   cycle, a step takes 3 + 6 + 3 = 12. Here, many steps need more, and the mean varies between
//   runs. Fusion pays off if a network has many more gradients than a step has cycles.
// - "Hosts first" sends 1 message in the host, 2 across and 1 in the host, 4 + 3 = 7. It halves
//   what rank 0 sends to the other host. It adds in a different order, so its parameters differ.
//   The others add in rank order and end with the same bits.

// ## Larger minibatches
//
// If each of W ranks keeps its 64 images, the minibatch has 64 W images, and an epoch has only 1/W
// of the updates. To learn as much, it would need larger steps, so a larger learning rate. We
// compare four rules for a minibatch that is k times as large:
//
// - **None.** The rate stays the same.
// - **Square root.** A mean over k times as many images has less noise: its standard deviation is
//   divided by $\sqrt{k}$. With $\sqrt{k}$ times the rate, an update is as noisy as before
//   [@krizhevsky2014; @hoffer2017].
// - **Linear.** One update with k times the images and k times the rate would have the effect of k
//   updates if the gradients did not change in between [@goyal2017]. This is Horovod's step 3.
// - **Linear with warm-up.** At first, gradients do change fast, so the rate starts at the base
//   rate and grows with each update [@goyal2017], here during the first quarter of training.
//
// lr_rules.c:rule_lr
//
// Now we train LeNet for ten epochs with the minibatches of 1, 4 and 16 ranks, each with three
// seeds. One rank can do such a run alone (next section), so our four ranks divide up the runs.
//
// behind/tables.c:show_rule_results
//
// ![Test accuracy of LeNet after ten epochs, with minibatches of 64, 256 and 1,024 images. At 0.1,
// the network only guesses.](plots/08_many_machines_lr_rules.png "A line for each of four rules,
// with bars from the lowest to the highest of three seeds. All start at one point. At 256 images,
// none and square root are a little lower, linear is at 0.1, and the bar of linear with warm-up
// reaches from 0.1 up to the others. At 1,024, only the line without a rule is still high.")
//
// Our base rate, 0.3, is the best that we found for 64 images: 0.1, 0.2 and 0.5 had lower means of
// three seeds. So there is little room to raise it. With 256 images, the linear rule's 1.2 trains
// from none of the three seeds. After warm-up, it trains from two, as well as "none" and "square
// root" do. With 1,024 images, "square root" starts with 1.2 and fails, too. Linear's 4.8 fails
// even after warm-up. Only the base rate itself still trains.
//
// The larger the minibatch, the lower the accuracy. We think fewer updates are the cause, but no
// run here isolates this. In an earlier recording from a base rate of 0.02, far below the best, the
// linear rules gave the highest accuracy at both sizes. So a rule does not find a good rate. It
// says what to try first, and no rule can exceed the largest rate that trains. Warm-up can make
// that rate larger. Exercise 4 asks about Adam.

// ## The same on one rank
//
// Four ranks' minibatch may not fit on one device, but the device can process its four parts one
// after another and update once at the end. This is *gradient accumulation*:
//
// step.c:accumulate
//
// main.c:ask_about_one_rank
//
// behind/tables.c:show_one_rank
//
// Between parts, gradients are neither divided nor set to zero. Each loss is a sum, and each
// `backward()` adds to the gradients. After the last part, `sgd_step()` divides by all rows,
// updates the parameters and sets the gradients to zero.
//
// A CPU device first adds up a part's gradients and then adds the result to the earlier sum. This
// gives ((0 + 1) + 2) + 3, the order of four ranks. (GPU libraries do not promise this.)

static Prediction ask_about_one_rank(void) {
    return predict_yes_no(
        "One rank trains LeNet for a few steps, each minibatch in four parts. Are "
        "its parameters bit-identical to those of four ranks?");
}

// ## How far does it go?
//
// Horovod's authors trained three networks on up to 512 GPUs, four in each machine, with one 25
// Gb/s network card per machine [@horovod2017]. *Efficiency* is the number of images per second on
// k GPUs, divided by k times the number on one GPU. Our model uses one ring over all GPUs and sends
// gradients as soon as there are 64 MiB of them:
//
// behind/tables.c:show_scaling
//
// From 16 GPUs to 512, only VGG-16 loses much, because it sends the most bytes relative to its
// computing time. There the model says 83 % where 68 % was published. It knows neither other
// traffic on the network nor the slowest of 512 GPUs. And Horovod did not wait for 64 MiB. It sent
// what was ready every 5 ms, and by that rule the model is far too slow ([How true is the
// clock?](../how_true.md#up-to-512-gpus)). In a ring over 512 GPUs, a message takes $2 (k-1)$ =
// 1,022 successive steps, each with the network's latency. So on many GPUs, send few large messages
// or add up inside each host first, and compute a lot for each byte that you send.
// <!-- figure: 83 68 = run-08 --machine p100-25gbe: "VGG-16" -->

// ## Summary
//
// - A rank is a process that knows its number and the number of ranks. Ranks communicate only by
//   messages, and all must call the same collectives in the same order.
// - Horovod's five steps are not enough: each rank also needs different images, and all must end
//   together.
// - A second thread that watches the clock can name a rank that hangs.
// - Buckets and fusion send nearly the same bytes in fewer messages. With two ranks on each of two
//   hosts, adding up inside first saves half of the sharded sum's traffic between hosts.
// - Larger minibatches mean fewer updates. A rule says which larger rate to try. Here, the
//   base rate is the best for 64 images, and four times as much trains only after warm-up, and not
//   always.
//
// ## Questions
//
// 1. All ranks draw their parameters from the same seed, so they are equal anyway. Why does rank 0
//    send its parameters to all?
// 2. Three ranks train on 13 images, each with 2 per step. How many steps does the epoch have? What
//    would happen if each rank simply processed its own images?
// 3. The order of fused gradients differs between runs. Which sums still give the parameters the
//    same bits in every run? Why does the ring not, although the table of sums says "the same"?
// 4. Two hosts have four ranks and one network card each. How many bytes leave a host if one ring
//    over all eight ranks sums N bytes? How many if the hosts add up inside first?
// 5. A debugger stops a rank for two minutes and then continues it. What do the others do with
//    `--timeout 60` and with `--timeout 300`?
// 6. `if (rank == 0) printf("accuracy %f\n", accuracy_of_all_ranks());` hangs. Why?
//
// ## Exercises
//
// Each has a folder in `exercises/`. The first two have a place for your part and a check, such as
// `make exercise-08-1`. `make exercise-08-3` asks a question and runs an experiment.
//
// 1. Write the ring allreduce with MPI alone, for any number of ranks, using `MPI_Sendrecv()`. The
//    check counts its messages and compares its bits with chapter 2's.
// 2. Find the hang. In four functions, ranks do not call the same collectives in the same order.
//    Which rank waits where, how does the watch tell you, and which mistake does it miss?
// 3. How large should fused messages be? Can that be computed from the cost of a message, for two
//    ranks here and for 512 on Horovod's machines?
// 4. Which optimizer needs the linear rule, and which the square root? See the lab sheet, `lab.md`.

// ## The program

static Prediction ask(Prediction (*question)(void)) {
    return dist_get_rank() == 0 ? question() : (Prediction){0};
}

static void compare_rules(void) {
    RuleJob jobs[MOST_RULE_JOBS];
    RuleResult results[MOST_RULE_JOBS];
    int n = rule_jobs(RULES_SGD, flags.seed, flags.quick ? 1 : MOST_JOB_SEEDS,
                      train_data->count / 4, jobs);
    int most = jobs[n - 1].base_batch * jobs[n - 1].times;
    if (jobs[0].images < most) {
        say("\n(No learning rates: these training runs need at least %d images.)", 4 * most);
        return;
    }
    deal_rule_jobs(jobs, results, n, train_data, test_data);
    if (dist_get_rank() == 0) show_rule_results(jobs, results, n);
    Device *device = dist_device();
    share_cores(&device, 1);
}

static void prepare_outputs(void) {
    if (dist_get_rank() > 0) {
        book_another_writes();
        return;
    }
    book_outputs("%s%s", rank_flags.train || flags.quick ? "" : "_scaling.csv ",
                 rank_flags.train ? "" : "_lr_rules.csv _lr_rules.png");
}

static void show_all(void) {
    if (!flags.quick) show_exchanges(&lesson);
    compare_rules();
    Prediction equal = ask(ask_about_one_rank);
    predict_compare_yes_no(equal, show_one_rank(&lesson));
    if (dist_get_rank() == 0 && !flags.quick) show_scaling();
}

int main(int argc, char *argv[]) {
    dist_before_flags();
    flags = read_rank_flags(argc, argv);
    if (flags.backend == BACKEND_MODEL) {
        book_outputs("_scaling.csv");
        show_scaling();
        return book_end();
    }
    dist_init_process_group((DistOptions){.timeout = (double)rank_flags.timeout,
                                          .threads = flags.threads,
                                          .ranks_per_host = rank_flags.ranks_per_host});
    if (dist_order_is_fixed()) dist_choose_all_reduce("sharded"); // there is no NCCL
    train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    test_data = fashion_mnist_open(flags.data, false, flags.test_size);
    prepare_outputs();
    ranks_must_agree(&flags, train_data, test_data);
    char *settings = rank_settings(&flags, train_data, test_data);
    lesson = rank_lesson(&flags, train_data, test_data, settings);
    show_ranks();
    dist_wait_patiently(!rank_flags.train); // some parts one rank does alone, as long as it takes
    if (!rank_flags.train && !flags.quick) {
        Prediction sent = ask(ask_about_the_star);
        show_collectives();
        predict_compare(sent, 4.0 * 129068 * (dist_get_world_size() - 1), "bytes");
    }
    if (rank_flags.train) finish_on_interrupt(); // there may be something to keep
    if (show_training(&lesson) && !rank_flags.train) show_all();
    dist_destroy_process_group();
    free(settings);
    dataset_free(train_data);
    dataset_free(test_data);
    return book_end();
}
