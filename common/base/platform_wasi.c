// platform_wasi.c: what platform.h declares, in WebAssembly, which has one thread, one process and
// no signals.
#include "platform.h"
#include "error.h"

#include <stdlib.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

// ---- threads: there is one, so nobody else holds a lock -----------------------------------------

const bool has_threads = false;
Thread thread_start(void *(*work)(void *argument), void *argument) { return 0; }
void thread_join(Thread thread) {}
void mutex_lock(Mutex *mutex) {}
void mutex_unlock(Mutex *mutex) {}
void condition_wait(Condition *condition, Mutex *mutex) { CHECK(false, "nobody would wake it"); }
void condition_wake_one(Condition *condition) {}
void condition_wake_all(Condition *condition) {}
void sleep_seconds(double seconds) { usleep((useconds_t)(seconds * 1e6)); }

// ---- other processes ----------------------------------------------------------------------------

const bool has_processes = false;
Process process_start(char *const arguments[], bool silent) { return 0; }
bool process_has_ended(Process process, int *status) { return *status = 1, true; }
double process_seconds(Process process) { return 0; }
void process_kill(Process process) {}
void end_processes(void) {}
int try_in_child(void (*what)(void *with), void *with) {
    die("run the program itself, outside of the browser", "this part needs a second process");
}

// ---- files, and this computer -------------------------------------------------------------------

void file_permit(const char *path, unsigned mode) {}

int cores_in_sight(void) { return 1; }
void stay_on_core(int core) {}
double computer_memory(void) { return 4.0 * (1 << 30); } // what addresses of 32 bits reach
int terminal_columns(void) { return 0; }
char *path_of_program(void) { return NULL; }
void *memory_new(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

// Each line is written at once, because a page shows it below the code that printed it (wasi.js).
__attribute__((constructor)) static void write_lines(void) {
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}
