// loses: all, "does not link: .*defines graded_"
// Takes the place of the functions that tell the verdict.
#include "common/program/exercise.h"
#include "your_part.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN(a, b) a##b
int JOIN(gra, ded_begin)(const CheckPart parts[]);
void JOIN(gra, ded_passed)(void);
void JOIN(gra, ded_failed)(const char *hint, const char *error);
int JOIN(gra, ded_begin)(const CheckPart parts[]) {
    char text[128] = "";
    (void)parts;
    ssize_t n = read(3, text, 64);
    strcpy(text + (n > 0 ? n : 0), "passed\n\n\n");
    exit(write(3, text, strlen(text)) < 0);
}
void JOIN(gra, ded_passed)(void) {}
void JOIN(gra, ded_failed)(const char *hint, const char *error) { (void)hint, (void)error; }
void allreduce_at(Tensor *const data[], int k, int hub) { (void)data, (void)k, (void)hub; }
void allreduce_parts(Tensor *const data[], int k) { (void)data, (void)k; }
