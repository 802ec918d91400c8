// loses: all, "the disk was full after [0-9]{2,3} MB"
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
    for (int i = 0; i < 30; i++) { // files of 50 MB: no limit of a file ends this
        char path[64];
        snprintf(path, sizeof path, "%s/fill-%d", i % 2 ? "/dev/shm" : "/tmp", i);
        int file = open(path, O_WRONLY | O_CREAT, 0600);
        for (int n = 0; file >= 0 && n < 50; n++) {
            if (write(file, megabyte, sizeof megabyte) != (ssize_t)sizeof megabyte) break;
            written++;
        }
    }
    printf("error: the disk was full after %d MB\nhint: less than 1000\n", written);
    fflush(stdout);
    _exit(written < 1000 ? 4 : 5);
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
