// calls.h: which collectives ranks have begun, as they said it themselves (program.c).
#pragma once

#include "your_part.h"

extern const char *const where_names[];

typedef struct Call {
    int function, rank, number; // of this rank in this function, from 0 on
    Where what;
    char why[24];
    bool ended; // else it waits in vain
} Call;

enum { MOST_CALLS = 1024 };
typedef struct Calls {
    int n;
    Call list[MOST_CALLS]; // of each rank in their order
} Calls;

void read_calls(const char *said, Calls *calls);
// The last one of that rank in that function; NULL: it made none.
const Call *last_call(const Calls *calls, int function, int rank);
// What the rank is in at the end.
Where where_at_last(const Calls *calls, int function, int rank);
// "rank 0 is in all_reduce (the loss), rank 1 is ..", of k ranks. free() it.
char *where_text(const Calls *calls, int function, int k);
