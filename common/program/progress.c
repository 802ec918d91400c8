// progress.c: overwrites the bar on the terminal's last line, at most ten times a second.
#include "progress.h"
#include "common/base/error.h"
#include "common/base/platform.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool on_screen; // a bar, without a line end

// (A rank's stderr is a pipe to mpirun; .make/ranks.sh knows where it leads.)
static bool has_terminal(void) { return isatty(STDERR_FILENO) || getenv("BOOK_TERMINAL"); }

static void remove_bar(void) {
    if (on_screen) fputs("\r\033[K", stderr);
    on_screen = false;
}

Progress progress_start(long total) {
    before_messages(remove_bar);
    return (Progress){.total = total, .started = seconds_now()};
}

void progress_step(Progress *progress, const char *text) {
    enum { WIDTH = 24 };
    progress->done++;
    double now = seconds_now();
    // Ten times a second is enough for the eye, and writing takes time.
    if (!has_terminal() || (now - progress->shown < 0.1 && progress->done < progress->total))
        return;
    progress->shown = now;
    on_screen = true;
    int filled = (int)(WIDTH * progress->done / progress->total);
    // The other steps will take as long as those before them.
    double per_step = (now - progress->started) / (double)progress->done;
    long left = (long)(per_step * (double)(progress->total - progress->done) + 0.5);
    char bar[WIDTH + 1] = "";
    for (int i = 0; i < WIDTH; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    // (A page of the book reads this, too: run.js.)
    fprintf(stderr, "\r\033[K%s [%s] %3ld%%  %ld:%02ld left", text, bar,
            100 * progress->done / progress->total, left / 60, left % 60);
    fflush(stderr);
}

void progress_clear(Progress *progress) {
    remove_bar();
    progress->shown = 0;
}
