// plot.c: see plot.h.
#include "plot.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "interrupt.h"
#include "png.h"
#include "common/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MOST_INPUTS = 8 };

char *plot_script(const char *name) {
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) {
        program[length] = '\0';
        for (int parent = 0; parent < 4; parent++) { // of build/program, build/asan/tests/program
            char *slash = strrchr(program, '/');
            if (!slash) break;
            *slash = '\0';
            char *path = xprintf("%s/plots/%s", program, name);
            if (access(path, R_OK) == 0) return path;
            free(path);
        }
    }
    return xprintf("plots/%s", name);
}

// ---- gnuplot ---------------------------------------------------------------------------------

// Asked again and again, so that a gnuplot that hangs does not hold up a program that is to end.
bool gnuplot_succeeded(pid_t gnuplot) {
    const double PATIENCE = 5;
    double deadline = INFINITY;
    int status;
    pid_t ended;
    end_with_us(gnuplot);
    while ((ended = waitpid(gnuplot, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (interrupted()) deadline = fmin(deadline, seconds_now() + PATIENCE);
        if (seconds_now() > deadline) kill(gnuplot, SIGKILL);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    end_with_us(0);
    return ended == gnuplot && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool gnuplot_runs(char *arguments[]) {
    pid_t pid;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawnp(&pid, "gnuplot", &quiet, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&quiet);
    return !failed && gnuplot_succeeded(pid);
}

char *plot_path(const char *path) { return xprintf("%s%s", path[0] == '/' ? "" : "./", path); }

// In a process group of its own: Ctrl-C stops the training, which then wants its last picture.
pid_t gnuplot_start(const char *script, const char *const inputs[], const char *output) {
    char *arguments[MOST_INPUTS + 5] = {"gnuplot", "-c", (char *)script};
    int n = 3;
    for (int i = 0; inputs[i]; i++) {
        CHECK(i < MOST_INPUTS, "gnuplot passes on nine arguments; one is the output");
        arguments[n++] = plot_path(inputs[i]);
    }
    arguments[n] = (char *)output;

    pid_t pid;
    posix_spawnattr_t own_group;
    posix_spawnattr_init(&own_group);
    posix_spawnattr_setflags(&own_group, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&own_group, 0);
    int failed = posix_spawnp(&pid, "gnuplot", NULL, &own_group, arguments, environ);
    posix_spawnattr_destroy(&own_group);
    for (int i = 3; i < n; i++) free(arguments[i]);
    return failed ? 0 : pid;
}

// ---- a picture -------------------------------------------------------------------------------

bool plot_can_draw(const char *script, const char *what, const char *figures) {
    if (!gnuplot_runs((char *[]){"gnuplot", "--version", NULL}))
        warn("no gnuplot: %s to %s only (`make setup` installs gnuplot)", what, figures);
    else if (access(script, R_OK) != 0)
        warn("no %s beside this program's folder: %s to %s only", script, what, figures);
    else
        return true;
    return false;
}

Drawing plot_start(const char *png, const char *script, const char *const inputs[]) {
    Drawing drawing = {.temporary = output_temporary(png)};
    char *output = plot_path(drawing.temporary);
    drawing.gnuplot = gnuplot_start(script, inputs, output);
    free(output);
    output_writer(drawing.temporary, drawing.gnuplot);
    return drawing;
}

bool plot_finish(Drawing *drawing, const char *png, const char *figures) {
    if (!drawing->temporary) return true;
    bool drawn = drawing->gnuplot && gnuplot_succeeded(drawing->gnuplot);
    output_writer(drawing->temporary, 0);
    // gnuplot does not notice that the disk is full.
    bool whole = drawn && (is_written_directly(png) || png_is_whole(drawing->temporary));
    if (!whole) {
        output_discard(drawing->temporary);
        warn("gnuplot could not %s %s; the figures are in %s%s", drawn ? "write all of" : "draw",
             png, figures, drawn ? ". Is the disk full?" : "");
        drawn = false;
    } else if (output_publish(drawing->temporary, png) != 0) {
        drawn = false;
        warn("%s: %s; the figures are in %s", png, strerror(errno), figures);
    }
    free(drawing->temporary);
    *drawing = (Drawing){0};
    return drawn;
}

bool plot_draw_from(const char *png, const char *script, const char *const inputs[]) {
    char *path = plot_script(script);
    bool drawn = plot_can_draw(path, "the figures go", inputs[0]);
    if (drawn) {
        Drawing drawing = plot_start(png, path, inputs);
        drawn = plot_finish(&drawing, png, inputs[0]);
    }
    free(path);
    return drawn;
}
