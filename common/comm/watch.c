// watch.c: see watch.h.
#include "watch.h"

#include "common/base/platform.h"
#include "common/base/error.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Where a process is.
typedef struct Place {
    int group;   // of its last collective,
    long number; // which was this one of the group,
    bool inside; // and it is not yet through with it
    char what[32], why[WHAT_LENGTH];
} Place;

static Wire *wire;
static const char *const *hosts;
static double timeout;
static pthread_t thread;
static bool is_running;
static atomic_bool stopping, patient, ending;
static const char *(*library_error)(void);
static void (*library_abort)(void);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // of these
static Place here;
static double moved;  // when something last arrived
static bool *inside;  // which ranks are in the group
static long *numbers; // of the last collective of each group
static int num_groups;

// ---- by the thread that communicates -----------------------------------------------------------

static void remember(int group, long number) {
    while (num_groups <= group) {
        numbers = xgrow(numbers, (size_t)(num_groups + 1), sizeof *numbers);
        numbers[num_groups++] = 0;
    }
    numbers[group] = number;
}

void watch_enter(int group, const int members[], int size, long number, const char *what,
                 const char *why) {
    pthread_mutex_lock(&mutex);
    here = (Place){.group = group, .number = number, .inside = true};
    snprintf(here.what, sizeof here.what, "%s", what);
    snprintf(here.why, sizeof here.why, "%s", why);
    for (int r = 0; inside && r < wire_size(wire); r++) inside[r] = !members;
    for (int m = 0; inside && members && m < size; m++) inside[members[m]] = true;
    remember(group, number);
    moved = seconds_now();
    pthread_mutex_unlock(&mutex);
}

void watch_progress(void) {
    pthread_mutex_lock(&mutex);
    moved = seconds_now();
    pthread_mutex_unlock(&mutex);
}

void watch_leave(void) {
    while (atomic_load(&ending)) pause();
    pthread_mutex_lock(&mutex);
    here.inside = false;
    pthread_mutex_unlock(&mutex);
}

void watch_patiently(bool patiently) { atomic_store(&patient, patiently); }

static Place where_am_i(double *seconds_without_progress) {
    pthread_mutex_lock(&mutex);
    Place place = here;
    *seconds_without_progress = here.inside ? seconds_now() - moved : 0;
    pthread_mutex_unlock(&mutex);
    return place;
}

// ---- questions and answers ---------------------------------------------------------------------

enum { ASK, ANSWER, VERDICT }; // tags

typedef struct Question {
    int group;
    long number; // of the question
} Question;

typedef struct Answer {
    Place place;
    long question;
    long number; // of its last collective of the group that it was asked about
    bool ends;   // it has an error to tell, and will end by itself
} Answer;

static Question question; // the last one that this rank has asked,
static double asked_at;   // and when
static Answer *answers;   // one of each rank
static bool *answered, *members;

static Answer answer_to(Question q) {
    double waited;
    Answer answer = {.place = where_am_i(&waited), .question = q.number, .ends = is_about_to_end()};
    pthread_mutex_lock(&mutex);
    answer.number = q.group < num_groups ? numbers[q.group] : 0;
    pthread_mutex_unlock(&mutex);
    return answer;
}

typedef struct Verdict {
    int who;     // keeps the others waiting; -1: nobody in particular
    int speaker; // the rank that says so; -1: all but `who`
    char error[400], hint[160];
} Verdict;

static void *abort_library(void *unused) {
    library_abort();
    return unused;
}

// A library that does not come back is left behind.
static void break_off(void) {
    pthread_t breaking;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (!library_abort || pthread_create(&breaking, NULL, abort_library, NULL) != 0) return;
    pthread_timedjoin_np(breaking, NULL, &until);
}

// (One that was stopped may go on again when it is told to end.)
static _Noreturn void end_with(const Verdict *v) {
    const double UNTIL_ALL_HAVE_SAID_IT = 0.3;
    int me = wire_rank(wire);
    if (atomic_exchange(&ending, true)) // another thread is at it
        for (;;) pause();
    if (v->speaker < 0 ? v->who != me : v->speaker == me) say_error(v->hint, v->error);
    break_off();
    nanosleep(&(struct timespec){0, (long)(UNTIL_ALL_HAVE_SAID_IT * 1e9)}, NULL);
    clean_up_before_dying();
    transport_abort(EXIT_FAILURE);
}

static void answer_others(void) {
    Question theirs_to_me;
    Answer theirs;
    Verdict verdict;
    int from;
    while (wire_poll(wire, &theirs_to_me, sizeof theirs_to_me, ASK, &from)) {
        Answer mine = answer_to(theirs_to_me);
        wire_post(wire, &mine, sizeof mine, from, ANSWER);
    }
    while (wire_poll(wire, &theirs, sizeof theirs, ANSWER, &from)) {
        if (theirs.question != question.number) continue; // an earlier one
        answers[from] = theirs;
        answered[from] = true;
    }
    if (wire_poll(wire, &verdict, sizeof verdict, VERDICT, &from)) end_with(&verdict);
}

static void ask_all(const Place *mine) {
    question = (Question){.group = mine->group, .number = question.number + 1};
    asked_at = seconds_now();
    pthread_mutex_lock(&mutex);
    memcpy(members, inside, sizeof *members * (size_t)wire_size(wire));
    pthread_mutex_unlock(&mutex);
    for (int r = 0; r < wire_size(wire); r++) {
        answered[r] = r == wire_rank(wire);
        if (answered[r])
            answers[r] = answer_to(question);
        else
            wire_post(wire, &question, sizeof question, r, ASK);
    }
}

// ---- who it is ---------------------------------------------------------------------------------

// "all_reduce 17 (bucket 1, step 42)"
static const char *place_text(const Place *place, char text[], size_t size) {
    snprintf(text, size, "%s %ld%s%s%s", place->what, place->number, *place->why ? " (" : "",
             place->why, *place->why ? ")" : "");
    return text;
}

// The first rank for which is(rank, mine) holds; -1: none.
static int first_rank(bool (*is)(int rank, const Place *mine), const Place *mine) {
    for (int r = 0; r < wire_size(wire); r++)
        if (is(r, mine)) return r;
    return -1;
}
// (Whoever waits for this rank may not be in a group with it: others wait for those that do.)
static bool is_silent(int r, const Place *mine) {
    (void)mine;
    return !answered[r];
}
static bool ends_itself(int r, const Place *mine) {
    (void)mine;
    return answered[r] && answers[r].ends;
}
static bool is_behind(int r, const Place *mine) {
    return members[r] && answers[r].number < mine->number && !answers[r].place.inside;
}
static bool is_elsewhere(int r, const Place *mine) {
    const Place *theirs = &answers[r].place;
    return members[r] && theirs->inside &&
           (theirs->group != mine->group || theirs->number != mine->number ||
            strcmp(theirs->what, mine->what) != 0 || strcmp(theirs->why, mine->why) != 0);
}

static Verdict judge(const Place *mine) {
    char place[160], other[160];
    int who;
    Verdict v = {.who = -1,
                 .speaker = -1,
                 .hint = "all ranks have to make the same collectives in the same order"};
    place_text(mine, place, sizeof place);
    if ((who = first_rank(is_silent, mine)) >= 0) {
        snprintf(v.error, sizeof v.error,
                 "rank %d on %s has not reached %s: it has not answered for %.3g s", who,
                 hosts[who], place, timeout);
        snprintf(v.hint, sizeof v.hint, "is it stopped, or is its host or network down?");
        v.who = who;
    } else if ((who = first_rank(is_behind, mine)) >= 0) {
        snprintf(v.error, sizeof v.error,
                 "rank %d on %s has not reached %s: after %s it does something else", who,
                 hosts[who], place,
                 answers[who].place.number > 0
                     ? place_text(&answers[who].place, other, sizeof other)
                     : "the start");
        snprintf(v.hint, sizeof v.hint,
                 "does it compute for long? A larger --timeout than %.3g lets the others wait",
                 timeout);
        v.who = who;
    } else if ((who = first_rank(is_elsewhere, mine)) >= 0) {
        snprintf(v.error, sizeof v.error, "rank %d on %s is in %s, while rank %d is in %s", who,
                 hosts[who], place_text(&answers[who].place, other, sizeof other), wire_rank(wire),
                 place);
    } else {
        snprintf(v.error, sizeof v.error, "all ranks are in %s, and nothing has moved for %.3g s",
                 place, timeout);
        snprintf(v.hint, sizeof v.hint, "is a link between the hosts down, or very slow?");
    }
    return v;
}

// One that ends by itself says why. And others may be at work, as long as it takes.
static bool may_wait(const Place *mine) {
    if (first_rank(ends_itself, mine) >= 0) return true;
    return atomic_load(&patient) && first_rank(is_silent, mine) < 0 &&
           first_rank(is_behind, mine) >= 0;
}

static _Noreturn void end_all(const Verdict *verdict) {
    for (int r = 0; r < wire_size(wire); r++)
        if (r != wire_rank(wire)) wire_post(wire, verdict, sizeof *verdict, r, VERDICT);
    end_with(verdict);
}

void watch_end_all(const char *error, const char *hint) {
    Verdict verdict = {.who = -1, .speaker = wire_rank(wire)};
    snprintf(verdict.error, sizeof verdict.error, "%s", error);
    snprintf(verdict.hint, sizeof verdict.hint, "%s", hint);
    end_all(&verdict);
}

// ---- the thread --------------------------------------------------------------------------------

// Those who are asked have a third of the time, but no more than two seconds, to answer: from when
// they were asked, for this process, or all, may have been stopped in between.
static void judge_those_who_were_asked(double to_answer) {
    double waited;
    if (seconds_now() - asked_at < to_answer) return;
    Place mine = where_am_i(&waited);
    if (waited < timeout) return; // something has moved meanwhile
    Verdict verdict = judge(&mine);
    if (!may_wait(&mine)) end_all(&verdict);
    watch_progress(); // and asks again
}

static void *watch(void *unused) {
    const double to_answer = fmin(timeout / 3, 2);
    bool asked = false;
    while (!atomic_load(&stopping)) {
        double waited;
        Place mine = where_am_i(&waited);
        const char *error = library_error ? library_error() : NULL;
        answer_others();
        if (error) watch_end_all(error, "has a rank ended? NCCL_DEBUG=INFO says what NCCL did");
        if (waited < timeout - to_answer) asked = false;
        if (!asked && waited >= timeout - to_answer) {
            ask_all(&mine);
            asked = true;
        }
        if (asked && waited >= timeout) judge_those_who_were_asked(to_answer);
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return unused;
}

static void start_thread(void) {
    atomic_store(&stopping, false);
    if (pthread_create(&thread, NULL, watch, NULL) != 0)
        die("raise `ulimit -u`", "cannot start the thread that watches the other ranks");
    is_running = true;
}

static void stop_thread(void) {
    atomic_store(&stopping, true);
    if (is_running) pthread_join(thread, NULL);
    is_running = false;
}

void watch_start(Wire *its_wire, const char *const its_hosts[], double its_timeout) {
    wire = its_wire;
    hosts = its_hosts;
    timeout = its_timeout;
    size_t size = (size_t)wire_size(wire);
    answers = xcalloc(size, sizeof *answers);
    answered = xcalloc(size, sizeof *answered);
    members = xcalloc(size, sizeof *members);
    pthread_mutex_lock(&mutex);
    inside = xcalloc(size, sizeof *inside);
    pthread_mutex_unlock(&mutex);
    if (wire_size(wire) > 1) start_thread();
}

void watch_library(const char *(*error)(void), void (*abort)(void)) {
    stop_thread(); // which reads these two
    library_error = error;
    library_abort = abort;
    start_thread();
}

void watch_stop(void) {
    stop_thread();
    library_error = NULL;
    library_abort = NULL;
    free(answers);
    free(answered);
    free(members);
    free(inside);
    free(numbers);
    answers = NULL;
    answered = members = inside = NULL;
    numbers = NULL;
    num_groups = 0;
}

// ---- before anybody has found the others --------------------------------------------------------
//
// Until MPI is there nobody can be asked. A rank that has not even started keeps all in MPI_Init().

static pthread_cond_t arrival = PTHREAD_COND_INITIALIZER;
static bool arrived;

static void *wait_for_arrival(void *seconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t) * (double *)seconds + 1;
    pthread_mutex_lock(&mutex);
    int status = 0;
    while (!arrived && status == 0) status = pthread_cond_timedwait(&arrival, &mutex, &until);
    bool alone = !arrived;
    pthread_mutex_unlock(&mutex);
    if (alone)
        die("a rank has not started, or hosts cannot reach each other; a larger --timeout waits "
            "longer",
            "not all ranks have come together within %g s", *(double *)seconds);
    return NULL;
}

void watch_arrival(double seconds) {
    static double kept;
    kept = seconds;
    arrived = false;
    if (pthread_create(&thread, NULL, wait_for_arrival, &kept) != 0)
        die("raise `ulimit -u`", "cannot start the thread that watches the start");
}

void watch_arrived(void) {
    pthread_mutex_lock(&mutex);
    arrived = true;
    pthread_cond_signal(&arrival);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}
