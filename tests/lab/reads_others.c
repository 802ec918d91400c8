// loses: all, "nothing could be read"
// Tries to read what is not its own: solutions, answers, other processes, the network.
#include "your_part.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int length(const char *path) {
    char bytes[64];
    int file = open(path, O_RDONLY);
    return file < 0 ? 0 : (int)read(file, bytes, sizeof bytes);
}
static int other_processes(void) {
    int n = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *e; folder && (e = readdir(folder));) n += atoi(e->d_name) > 0;
    return n > 6; // bubblewrap, the shell, this one
}
static int network(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};
    inet_pton(AF_INET, "9.9.9.9", &address.sin_addr);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    return s >= 0 && connect(s, (struct sockaddr *)&address, sizeof address) == 0;
}
static _Noreturn void say(const char *what, int status) {
    printf("error: %s\nhint: nothing should be\n", what);
    fflush(stdout);
    _exit(status);
}
void allreduce_at(Tensor *const data[], int k, int hub) {
    const char *const files[] = {
        "chapters/04_lenet_multi_gpu/exercises/3_efficient_allreduce/solution.c",
        "chapters/04_lenet_multi_gpu/exercises/3_efficient_allreduce/rivals",
        "chapters/04_lenet_multi_gpu/answers.md",
        "tests/lab/hangs.c",
        "README.md",
        ".git/HEAD",
        "/etc/shadow"};
    (void)data, (void)k, (void)hub;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (length(files[i]) > 0) say(files[i], 3);
    if (other_processes()) say("other processes are seen", 3);
    if (network()) say("there is a network", 3);
    say("nothing could be read", 4);
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
