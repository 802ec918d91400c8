// note.h: what in a hand-in a person should look at.
#ifndef NOTE_H
#define NOTE_H

#include <stddef.h>

// "look at it: fork, ptrace": words of the source (not of its comments) that no exercise needs, and
// that one would use to deceive the check, with which a hand-in shares a process. It is no proof,
// and costs no points. NULL: there are none. free() it.
char *note_about(const char *source, size_t length);

#endif
