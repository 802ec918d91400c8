// rank_flags.h: the chapter's flags, what becomes of them, and that all ranks have the same ones.
#ifndef RANK_FLAGS_H
#define RANK_FLAGS_H

#include "common/program/flags.h"
#include "rank_training.h"

// The flags that this chapter adds; 0 and NULL: not given.
typedef struct RankFlags {
    bool train, full, hierarchical;
    const char *network, *rule, *collective, *exchange, *plant;
    int bucket, fusion; // KB
    int seeds, devices_per_rank, ranks_per_host;
    float cycle, timeout; // milliseconds, seconds
} RankFlags;
extern RankFlags rank_flags;

// book_begin() of this chapter: reads the flags and refuses what cannot be.
Flags read_rank_flags(int argc, char *argv[]);

// die()s, on all ranks, if one has other flags than rank 0 where it matters, other images or
// another program: ranks would wait for each other, or add up what does not belong together. Says
// which one it is, both values, and who has them. Files are rank 0's own affair.
void ranks_must_agree(const Flags *flags, const Dataset *train_data, const Dataset *test_data);

// What a training must have in common with the checkpoint that it goes on from, as a text. free()
// it.
char *rank_settings(const Flags *flags, const Dataset *train_data, const Dataset *test_data);

// The flags as a training. What it points to must stay.
RankLesson rank_lesson(const Flags *flags, const Dataset *train_data, const Dataset *test_data,
                       const char *settings);

#endif
