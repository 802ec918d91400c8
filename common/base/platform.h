// platform.h: what the book asks of an operating system beyond C and POSIX's files.
//
// platform_posix.c implements it on Linux, platform_wasi.c in WebAssembly, which has one thread,
// one process and no signals, and computer.c where both are the same. Do not use threads or fork()
// elsewhere. (Chapter 8's ranks exist on Linux only.)
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// ---- threads -----------------------------------------------------------------------------------

typedef uintptr_t Thread; // 0: none
// Zeroed memory is an unlocked mutex, and a condition that nobody waits for.
typedef struct Mutex {
    _Alignas(16) char room[64];
} Mutex;
typedef struct Condition {
    _Alignas(16) char room[64];
} Condition;

// False if there is only one thread. Then CPU devices compute in it (BACKEND_INLINE).
extern const bool has_threads;
// Starts work(argument). Returns 0 if no thread can be started.
Thread thread_start(void *(*work)(void *argument), void *argument);
void thread_join(Thread thread); // waits until its work is done
void mutex_lock(Mutex *mutex);
void mutex_unlock(Mutex *mutex);
// Call it with the mutex locked, and ask again what you wait for: it may wake up for no reason.
void condition_wait(Condition *condition, Mutex *mutex);
void condition_wake_one(Condition *condition);
void condition_wake_all(Condition *condition);
void sleep_seconds(double seconds);

// ---- other processes ---------------------------------------------------------------------------

typedef int Process; // its number; 0: none

extern const bool has_processes; // false in a browser

// Starts a program, which is searched in PATH, in its own process group. The first argument is
// its name, the last is NULL. `silent` discards its output. Returns 0 if it cannot be started.
Process process_start(char *const arguments[], bool silent);
// Starts a copy of this process, also in its own group. The copy calls run(with) and ends.
// (Linux only.)
Process process_fork(void (*run)(const void *with), const void *with);
// Does not wait. Once it has ended, `status` is its exit status, or minus the signal that ended it.
bool process_has_ended(Process process, int *status);
// Processor time that it has taken so far, of all its threads, not of processes that it started.
double process_seconds(Process process);
void process_kill(Process process); // and its group
// Kills all processes that process_start() has started and that have not ended, as the end of
// the program by die() or a signal does. A signal handler may call it.
void end_processes(void);

// For functions that end the program: calls what(with) in a child process, whose messages go to
// standard output, and returns its status, which is 0 if what() returns. Workers and GPU contexts
// do not exist in the child, so it must not use devices that compute. (It may use devices without
// values, after devices_after_fork().)
int try_in_child(void (*what)(void *with), void *with);

// ---- files, and this computer ------------------------------------------------------------------

void file_permit(const char *path, unsigned mode); // chmod()
double seconds_now(void);                          // of a clock that never goes back
// How many cores this process may use. A container may show all cores of the machine but give the
// process the time of only a few.
int num_cores(void);
// How many threads the CPU devices and the host's own work share: num_cores(), or what was set.
int num_threads(void);
void set_num_threads(int threads); // 0: num_cores()
// How many cores the program could use when it started, at least 1.
int cores_in_sight(void);
// Keeps this thread on one of these cores, which are numbered from 0. -1 lets it run on all.
void stay_on_core(int core);
double computer_memory(void); // bytes
int terminal_columns(void);   // 0 if standard output is no terminal
char *path_of_program(void);  // NULL if unknown; free() it
// Aligned to 64 bytes. A large block is in large pages. NULL if no memory is left. free() it.
void *memory_new(size_t bytes);
