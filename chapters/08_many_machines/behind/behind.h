// behind.h: what else chapter 8 needs of a group of ranks, and its flags, tables and faults.
#pragma once

#include "common/program/flags.h"
#include "chapters/08_many_machines/training.h"

// ## flags.c

typedef struct RankFlags {
    bool train;
    const char *plant;
    int ranks_per_host;
    float timeout; // seconds
} RankFlags;
extern RankFlags rank_flags;

// book_begin() of this chapter: reads the flags and refuses impossible ones.
Flags read_rank_flags(int argc, char *argv[]);
// die()s, on all ranks, if one has other flags than rank 0 where that matters, other images,
// another program or another kind of device.
void ranks_must_agree(const Flags *f, const Dataset *train_data, const Dataset *test_data);
// What a checkpoint must have in common with a training that resumes it. free() it.
char *rank_settings(const Flags *f, const Dataset *train_data, const Dataset *test_data);
// The training that the flags ask for.
RankLesson rank_lesson(const Flags *f, const Dataset *train_data, const Dataset *test_data,
                       const char *settings);

// die_usage()s if the fault that --plant asks for never comes.
void check_fault(long steps);

// ## process_group.c

// The texts of all ranks, for free_texts().
char **gather_texts(const char *mine);
void free_texts(char **texts);
void find_nccl(bool shares_gpu); // whether all ranks can use NCCL; by all ranks

// ## tables.c

// By all ranks: a line for each, with its host, device and threads.
void show_ranks(void);
// By all ranks: each way to sum, and for gradients to travel. Bits are compared, and bytes with
// chapter 2's formula. show_exchanges() pretends two hosts if there is one.
void show_collectives(void);
void show_exchanges(const RankLesson *lesson);
// Trains, by all ranks, and checks that all have the same parameters. Returns whether it was left
// to end.
bool show_training(const RankLesson *lesson);
// The parameters after a few steps: of all ranks, and of rank 0 alone with W parts. Returns
// whether they are equal.
bool show_one_rank(const RankLesson *lesson);
// The trainings with larger minibatches as a table, a picture and a CSV.
void show_rule_results(const RuleJob jobs[], const RuleResult results[], int n);

// Three networks on 16 and 512 GPUs: published efficiencies, and modelled ones.
void show_scaling(void);
