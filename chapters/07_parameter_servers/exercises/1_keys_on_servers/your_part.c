// # Exercise 1: which server has which keys?
//
// Chapter 7, "Servers": "A parameter's *key* is its place in the vector of all parameters, and each
// server holds a range of keys." Here, a whole tensor is a key. Then one server can
// have most of the parameters: of LeNet's 129,068, 102,400 are in one tensor.
//
// Difficulty: ★★☆☆
//
// **Aim.** A step is as slow as the server with most to do, so the busiest should have as little as
// possible. Tensors are very unequal. Whole, they can be given out well or badly (TensorFlow's
// replica_device_setter() gives them out in turns, unless it is told otherwise); cut, they fit
// everywhere, but each piece is a message more. How many servers are worth having?
//
// **Your task.** Write `place_keys()`, which gives the largest key to the server with least, and so
// on; and `cut_keys()`, which makes pieces of the keys that are too large.
//
// **How it is checked.** The busiest server may have no more than with this rule. (That is at most
// 4/3 - 1/(3S) times the least there could be: Graham, 1969.) Then each key must be on the server
// that the rule says. The pieces of a key must be few, nearly equal, and together the key.
//
// **How to run.** All times are modelled, so the experiment takes no time itself.
//
//     make exercise-07-1 ARGS=--check                   the check alone: seconds
//     make exercise-07-1                                the check, then the experiment: seconds
//     make exercise-07-1 ARGS='--workers 32'            more workers
//     make exercise-07-1 ARGS='--machine laptops-1gbe'  over slower links
//
// **What to hand in.** This file, and your answer: from how many servers on does it not help to
// have more, with whole keys and with pieces; what is wrong with giving out keys in turns, and with
// ranges of as many keys each; and how large should pieces be?
#include "your_part.h"

// `place_keys()` writes `server_of[i]`, the server (0 to S-1) of key i, for n keys with loads[i]
// bytes each. (S is MOST_PLACES at most.)
//
// - The largest key goes first; of several that are as large, the one with the lowest number.
// - It goes to the server that has least by then, in bytes; of several, to the lowest number.
void place_keys(const size_t loads[], int n, int S, int server_of[]) {
    // YOUR CODE HERE
}

// `cut_keys()` writes the pieces of n keys, of sizes[i] floats, and returns how many there are. A
// key of at most `most` floats is one piece, {i, {0, sizes[i]}}. A larger one is cut into as few
// pieces as can be of at most `most` floats, as equal as can be: equal_range() of
// common/base/range.h makes ranges like that. Pieces come in the order of keys, and of floats.
int cut_keys(const size_t sizes[], int n, size_t most, Piece pieces[]) {
    // YOUR CODE HERE
    return 0;
}
