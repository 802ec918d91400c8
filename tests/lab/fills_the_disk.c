// loses: all, "the disk was full after [0-9]+ MB"
#include "your_part.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

void allreduce_at(Tensor *const data[], int k, int hub) {
    static char megabyte[1 << 20];
    int written = 0;
    (void)data, (void)k, (void)hub;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0, more = 1; more && i < 10000; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/fill-%d", i);
        int file = open(path, O_WRONLY | O_CREAT, 0600);
        for (more = file >= 0; more && written < 20000; written += more)
            more = write(file, megabyte, sizeof megabyte) == (ssize_t)sizeof megabyte;
        more = 0;
    }
    printf("error: the disk was full after %d MB\nhint: less than 1000\n", written);
    fflush(stdout);
    _exit(written < 1000 ? 4 : 5);
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
