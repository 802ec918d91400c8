// sandbox.c: see sandbox.h.
#include "sandbox.h"
#include "bounds.h"
#include "processes.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <glob.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What a sandbox may have: MB in each of its two folders in memory and in a file, and threads of
// all its processes together. (An exercise of chapter 8 starts five ranks, with a few threads
// each.)
#define MOST_MB      "256"
#define MOST_THREADS "200"

// ---- a list of arguments ---------------------------------------------------------------------

typedef struct Arguments {
    char **list;
    size_t n;
} Arguments;

static void add_one(Arguments *a, const char *text) {
    a->list = xgrow(a->list, a->n + 2, sizeof *a->list);
    a->list[a->n++] = xstrdup(text);
    a->list[a->n] = NULL;
}

// add(a, "--setenv", "HOME", "/tmp", NULL)
static void __attribute__((sentinel)) add(Arguments *a, ...) {
    va_list texts;
    va_start(texts, a);
    for (const char *text; (text = va_arg(texts, const char *));) add_one(a, text);
    va_end(texts);
}

void sandbox_command_free(char **arguments) {
    for (char **a = arguments; *a; a++) free(*a);
    free(arguments);
}

// (bwrap would make the folders above a path for root alone.)
static void add_folders_above(Arguments *a, const char *path) {
    char *above = xstrdup(path);
    for (char *slash = above; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        add(a, "--perms", "0755", "--dir", above, NULL);
        *slash = '/';
    }
    free(above);
}
static void add_path(Arguments *a, const char *how, const char *path) {
    add_folders_above(a, path);
    add(a, how, path, path, NULL);
}

// ---- what is seen there ----------------------------------------------------------------------

// /lib is a link to usr/lib on most systems, and a folder on others.
static void add_system(Arguments *a) {
    const char *const folders[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt"};
    const char *const files[] = {"/etc/alternatives", "/etc/ld.so.cache", "/etc/openmpi",
                                 "/etc/mpich",        "/etc/fonts",       "/etc/passwd",
                                 "/etc/group",        "/etc/hosts",       "/etc/nsswitch.conf"};
    add(a, "--ro-bind", "/usr", "/usr", NULL);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char target[256];
        ssize_t n = readlink(folders[i], target, sizeof target - 1);
        if (n > 0) {
            target[n] = '\0';
            add(a, "--symlink", target, folders[i], NULL);
        } else {
            add(a, "--ro-bind-try", folders[i], folders[i], NULL);
        }
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        add_path(a, "--ro-bind-try", files[i]);
    add(a, "--proc", "/proc", "--dev", "/dev", NULL);
    // (Shared memory could be had of it: see memory_filter.h.)
    add(a, "--ro-bind", "/dev/null", "/dev/zero", NULL);
    const char *const in_memory[] = {"/dev/shm", "/tmp"};
    for (size_t i = 0; i < 2; i++)
        add(a, "--perms", "1777", "--size", MOST_MB "000000", "--tmpfs", in_memory[i], NULL);
}

// An empty file takes the place of what students do not have.
static void hide(Arguments *a, const char *project, const char *pattern) {
    char *path = path_join(project, pattern);
    glob_t found;
    if (glob(path, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            add(a, "--ro-bind", "/dev/null", found.gl_pathv[i], NULL);
        globfree(&found);
    }
    free(path);
}

static void add_project(Arguments *a, const Sandbox *s) {
    const char *const folders[] = {"common", "kernels", "chapters", ".make", ".lab"};
    // Whatever else is in the project stays out, also where its folder is one that is seen (/opt).
    add_folders_above(a, s->project);
    add(a, "--perms", "0755", "--tmpfs", s->project, NULL);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = path_join(s->project, folders[i]);
        add_path(a, "--ro-bind", path);
        free(path);
    }
    // (What was given is compiled already.)
    hide(a, s->project, "chapters/*/exercises/*/*.c");
    hide(a, s->project, "chapters/*/exercises/*.c");
    hide(a, s->project, "chapters/*/exercises/*/rivals");
    hide(a, s->project, "chapters/*/exercises/*/expected.tsv");
    hide(a, s->project, "chapters/*/*answers.md");
    hide(a, s->project, "chapters/*/exercises/*/answers.md");
    add_path(a, "--ro-bind", s->library);
    add_path(a, "--ro-bind", s->given);
    add_path(a, s->may_write ? "--bind" : "--ro-bind", s->own);
    if (s->facts) add(a, "--bind", s->facts, s->facts, NULL);
    const char *data = getenv("FASHION_MNIST_DIR");
    if (!data) return;
    add_path(a, "--ro-bind-try", data);
    add(a, "--setenv", "FASHION_MNIST_DIR", data, NULL);
}

// Exercises have CPU devices there: a GPU would be a way out, and sums on it have other bits.
static void add_environment(Arguments *a, const Sandbox *s) {
    const char *const kept[] = {"OMP_NUM_THREADS", "CPU"};
    add(a, "--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", NULL);
    add(a, "--setenv", "HOME", "/tmp", "--setenv", "LC_ALL", "C.UTF-8", "--setenv", "OWN", s->own,
        NULL);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (getenv(kept[i])) add(a, "--setenv", kept[i], getenv(kept[i]), NULL);
}

// ---- the command -----------------------------------------------------------------------------

// With root's rights bwrap needs no namespace of users, which some systems do not allow. Whoever is
// root there has no rights over files of others, but is not limited in processes; so it becomes a
// user that nobody else is.
static void add_user(Arguments *a) {
    if (geteuid() == 0)
        add(a, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP",
            NULL);
    else
        add(a, "--unshare-user", NULL);
}

// Numbers of users that systemd's list (systemd.io/UIDS-GIDS) leaves to nobody; larger ones may be
// missing in a container. Somebody may have one all the same, another grader above all.
static int user_nobody_is(void) {
    enum { FIRST = 60706, COUNT = 61184 - FIRST };
    for (int i = 0; i < COUNT; i++) {
        uid_t user = (uid_t)(FIRST + (getpid() + i) % COUNT);
        if (!getpwuid(user) && !user_has_processes(user)) return (int)user;
    }
    die("end what runs as users 60706 to 61183", "no user is left to run strangers' code as");
}

static void add_limits(Arguments *a) {
    add(a, "prlimit", "--core=0", "--nproc=" MOST_THREADS, "--fsize=" MOST_MB "000000", NULL);
    if (geteuid() != 0) return;
    char *user = xprintf("--reuid=%d", user_nobody_is());
    add(a, "setpriv", user, "--regid=65534", "--clear-groups", "--inh-caps=-all",
        "--bounding-set=-all", "--no-new-privs", NULL);
    free(user);
}

static void add_sandbox(Arguments *a, const Sandbox *s) {
    add(a, "bwrap", "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid", NULL);
    add(a, "--unshare-net", "--unshare-uts", "--unshare-cgroup-try", NULL);
    add_user(a);
    add_environment(a, s);
    add_system(a);
    add_project(a, s);
    add(a, "--remount-ro", s->project, "--remount-ro", "/dev", "--remount-ro", "/", NULL);
    add(a, "--chdir", s->project, NULL);
    add_limits(a);
}

// (Compilers' messages are read, so they are not to be translated.)
static void set_environment(const Sandbox *s) {
    setenv("OWN", s->own, 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    if (s->trust == OTHER_USER) setenv("HOME", "/tmp", 1);
}

char **sandbox_command(const Sandbox *s, const char *command) {
    Arguments a = {0};
    if (s->trust == CONTAINED)
        add_sandbox(&a, s);
    else
        set_environment(s);
    if (s->trust == OTHER_USER && geteuid() == 0) add_limits(&a);
    add(&a, "sh", "-c", command, NULL);
    return a.list;
}

bool sandbox_works(const Sandbox *s, char **why) {
    char *command = xprintf("cat '%s' '%s/common/base/error.h' >/dev/null && %s echo works",
                            s->library, s->project, s->trust == CONTAINED ? "test ! -w / &&" : "");
    char **arguments = sandbox_command(s, command);
    Outcome outcome = run_in_bounds(arguments, (Bounds){.seconds = 20,
                                                        .megabytes = 500,
                                                        .processes = 10,
                                                        .printed = 10000,
                                                        .strangers = s->trust != OWN_WORK});
    bool works = outcome.status == 0 && strcmp(outcome.printed, "works\n") == 0;
    outcome.printed[strcspn(outcome.printed, "\n")] = '\0';
    *why = works ? NULL : xstrdup(outcome.printed);
    sandbox_command_free(arguments);
    outcome_free(&outcome);
    free(command);
    return works;
}
