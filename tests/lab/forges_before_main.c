// loses: all, "does not link: .*init_array"
// Looks at the secret before the check does.
#include "your_part.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void first(void) {
    char text[128];
    ssize_t n = recv(3, text, 64, MSG_PEEK);
    if (n <= 0) return;
    strcpy(text + n, "passed\n\n\n");
    send(3, text, strlen(text), 0);
}
__attribute__((section(".init_array"), used)) static void (*const early)(void) = first;
void allreduce_at(Tensor *const data[], int k, int hub) { (void)data, (void)k, (void)hub; }
void allreduce_parts(Tensor *const data[], int k) { (void)data, (void)k; }
