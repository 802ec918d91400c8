// other_format.h: what a file is that is not what it was given as, by its first bytes.
#ifndef OTHER_FORMAT_H
#define OTHER_FORMAT_H

#include <stddef.h>

typedef struct OtherFormat {
    const char *is;              // "a web page"
    const char *parameters_hint; // what to do if it was given as parameters (safetensors.h),
    const char *data_hint;       // or as a file of the data set
} OtherFormat;

enum { FIRST_BYTES = 64 }; // that it takes to tell; a shorter file has fewer

// {0} if the bytes say nothing.
OtherFormat other_format(const char *first, size_t n);

#endif
