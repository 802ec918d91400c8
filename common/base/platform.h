// platform.h: what the book asks of an operating system. Each has one file that answers, and
// nothing else knows which it is: platform_posix.c (Linux), and platform_wasi.c (WebAssembly: one
// thread, one process, no signals). Files and clocks are POSIX's on all. (The processes of chapter
// 8 are for POSIX alone.)
#ifndef PLATFORM_H
#define PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// ---- threads, and what they wait for each other with -------------------------------------------

typedef uintptr_t Thread; // 0: none
// Zeroed memory is an unlocked mutex, and a condition that nobody waits for.
typedef struct Mutex {
    _Alignas(16) char room[64];
} Mutex;
typedef struct Condition {
    _Alignas(16) char room[64];
} Condition;

// Whether there may be more than one. If not, CPU devices work in the host's (BACKEND_INLINE).
extern const bool has_threads;
// Starts work(argument); 0 if there is no thread to be had.
Thread thread_start(void *(*work)(void *argument), void *argument);
void thread_join(Thread thread); // waits until its work is done
void mutex_lock(Mutex *mutex);
void mutex_unlock(Mutex *mutex);
// With the mutex locked: unlocks it, sleeps until it is woken (or for no reason), locks it again.
void condition_wait(Condition *condition, Mutex *mutex);
void condition_wake_one(Condition *condition);
void condition_wake_all(Condition *condition);
void sleep_seconds(double seconds);

// ---- other processes ---------------------------------------------------------------------------

typedef int Process; // its number; 0: none

// Whether there may be others: not in a browser's tab.
extern const bool has_processes;

// Starts a program, found by PATH, in a process group of its own; 0 if that cannot be. The first
// argument is its name, the last is NULL. `silent`: nobody sees what it prints.
Process process_start(char *const arguments[], bool silent);
// Starts a copy of this process, also in a group of its own, that calls run(with) and ends. (This
// and try_in_child(): of POSIX alone.)
Process process_fork(void (*run)(const void *with), const void *with);
// Whether it has ended, without waiting for it; then `status` is what it ended with, or minus the
// signal that ended it.
bool process_has_ended(Process process, int *status);
// Ends it, with its group, at once. (A handler of signals may call this.)
void process_kill(Process process);
// Whether there is a process of that number, be it ours or not.
bool process_is_there(Process process);
// A pipe to what a shell would run; NULL if there is none.
FILE *pipe_open(const char *command);
void pipe_close(FILE *pipe);

// Tries something that ends the program, and goes on: calls what(with) in a child process, whose
// messages go to stdout, and returns its status: 0 if what() returned. The child must not use
// devices that compute: neither workers nor a GPU's context go with it. (Those without values it
// may use, after devices_after_fork().)
int try_in_child(void (*what)(void *with), void *with);

// One lock that a handler of signals may take, too. Who holds it gets no signals: so a handler
// never waits for its own thread.
void lock_against_signals(void);
void unlock_against_signals(void);

// ---- files, and this computer ------------------------------------------------------------------

// Locks an open file until it is closed; false if another process has. Also across containers.
bool file_lock(int file);
void file_permit(const char *path, unsigned mode); // chmod
// Whoever reads this pipe does not see its end when the stream is closed.
void file_stay_open(FILE *stream);

int cores_in_sight(void);    // that this process could run on when it was started, >= 1
void stay_on_core(int core); // this thread: on one of those in sight, from 0 on; -1: on any of them
double computer_memory(void); // bytes
int terminal_columns(void);   // of standard output; 0: it is no terminal
char *path_of_program(void);  // free() it; NULL: not known
// 64-byte aligned, in large pages if it is large; for free(). NULL: there is none left.
void *memory_new(size_t bytes);

#endif
