// loses: all, "nothing could be written"
// Tries to write where it should not; says so only if it could not.
#include "your_part.h"
#include "common/base/error.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void write_outside(void) {
    const char *const files[] = {
        "/written",          "/etc/written",     "/usr/written",
        "README.md",         "chapters/written", "common/written",
        "../written",        "/dev/written",     "/proc/sys/kernel/hostname",
        "build/lab/written", "written",          "/var/written"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (open(files[i], O_WRONLY | O_CREAT | O_APPEND, 0666) >= 0) {
            printf("error: %s could be written\nhint: it should not\n", files[i]);
            fflush(stdout);
            _exit(3);
        }
    printf("error: nothing could be written\nhint: as it should be\n");
    fflush(stdout);
    _exit(4);
}
void allreduce_at(Tensor *const data[], int k, int hub) {
    (void)data, (void)k, (void)hub;
    write_outside();
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
