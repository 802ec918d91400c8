// memory_filter.c: see memory_filter.h. The kernel runs a little program before each system call of
// the process (seccomp); those that it refuses fail as if the kernel had not got them.
#include "memory_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define PROCESSOR AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define PROCESSOR AUDIT_ARCH_AARCH64
#endif

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

#ifdef PROCESSOR
#define AT(field)                offsetof(struct seccomp_data, field)
#define LOAD(field)              BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(field))
#define IF_IS(value, yes, no)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define IF_LEAST(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), (yes), (no))
#define RETURN(what)             BPF_STMT(BPF_RET | BPF_K, (what))

enum { SHARED_WITHOUT_FILE = MAP_SHARED | MAP_ANONYMOUS, OTHER_TABLE = 0x40000000 };

// Jumps count the instructions that are passed over. 32-bit programs, and x32's table of calls,
// have other numbers for all of this: nothing here is one.
static const struct sock_filter program[] = {
    LOAD(arch),
    IF_IS(PROCESSOR, 0, 10),
    LOAD(nr),
    IF_LEAST(OTHER_TABLE, 8, 0),
    IF_IS(SYS_memfd_create, 7, 0),
    IF_IS(SYS_memfd_secret, 6, 0),
    IF_IS(SYS_shmget, 5, 0),
    IF_IS(SYS_mmap, 0, 3),
    LOAD(args[3]), // the flags, their lower half
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SHARED_WITHOUT_FILE),
    IF_IS(SHARED_WITHOUT_FILE, 1, 0),
    RETURN(SECCOMP_RET_ALLOW),
    RETURN(SECCOMP_RET_ERRNO | ENOSYS),
};

void refuse_memory_without_owner(void) {
    struct sock_fprog all = {.len = sizeof program / sizeof *program,
                             .filter = (struct sock_filter *)program};
    // Without the first, only root may do the second.
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0)
        return;
    fprintf(stderr, "error: system calls cannot be filtered here (seccomp): %s\n", strerror(errno));
    _exit(EXIT_FAILURE);
}
#else
void refuse_memory_without_owner(void) {} // (another processor: such memory is not counted)
#endif
