// png.h: whether a file is a whole PNG. A program may write half of one and not notice.
#ifndef PNG_H
#define PNG_H

#include <stdbool.h>

// Looks at its parts: each as long as it says and with the checksum that it says, IEND the last.
bool png_is_whole(const char *path);

#endif
