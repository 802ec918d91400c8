// mistakes.h: two mistakes in get_params and allreduce that are easy to make and hard to see.
#ifndef MISTAKES_H
#define MISTAKES_H

// Both make the mistake on purpose, and end the program with an error if it is not noticed.
void show_rebinding(void); // a new tensor in place of a sum
void show_sharing(void);   // two devices, one buffer

#endif
