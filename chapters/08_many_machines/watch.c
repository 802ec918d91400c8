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

// Where a rank is.
typedef struct Place {
    long number; // of its last collective,
    bool inside; // and whether it is still in it
    char what[32], why[WHAT_LENGTH];
} Place;

static MPI_Comm comm;
static int rank, size;
static const char *const *hosts;
static double timeout;
static pthread_t thread;
static atomic_bool running, patient, ending;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // of these
static Place here;
static double moved; // when something last arrived

// ## By the thread that communicates

void watch_enter(const char *what, const char *why) {
    pthread_mutex_lock(&mutex);
    here.number++;
    here.inside = true;
    snprintf(here.what, sizeof here.what, "%s", what);
    snprintf(here.why, sizeof here.why, "%s", why);
    moved = seconds_now();
    pthread_mutex_unlock(&mutex);
}

void watch_progress(void) {
    pthread_mutex_lock(&mutex);
    moved = seconds_now();
    pthread_mutex_unlock(&mutex);
}

void watch_leave(void *unused) {
    (void)unused;
    while (atomic_load(&ending)) pause();
    pthread_mutex_lock(&mutex);
    here.inside = false;
    pthread_mutex_unlock(&mutex);
}

void watch_patiently(bool on) { atomic_store(&patient, on); }

static Place where_am_i(double *seconds_without_progress) {
    pthread_mutex_lock(&mutex);
    Place place = here;
    *seconds_without_progress = here.inside ? seconds_now() - moved : 0;
    pthread_mutex_unlock(&mutex);
    return place;
}

// ## Questions and answers

enum { ASK, ANSWER, VERDICT }; // tags

typedef struct Answer {
    Place place;
    long question; // its number
    bool ends;     // it has an error to report, and will end by itself
} Answer;

typedef struct Verdict {
    int who; // keeps the others waiting; -1: none in particular
    char error[400], hint[160];
} Verdict;

static long question;   // the number of the last one that this rank has asked,
static double asked_at; // and when
static Answer *answers; // of each rank

// (The copy is never freed. These messages are few.)
static void post(const void *data, size_t bytes, int to, int tag) {
    MPI_Request request;
    void *copy = xmalloc(bytes);
    memcpy(copy, data, bytes);
    MPI_Isend(copy, (int)bytes, MPI_BYTE, to, tag, comm, &request);
    MPI_Request_free(&request);
}

// Takes a message with this tag, if one has arrived, and says from which rank.
static bool poll_for(void *data, size_t bytes, int tag, int *from) {
    MPI_Message message;
    MPI_Status status;
    int is_there = 0;
    MPI_Improbe(MPI_ANY_SOURCE, tag, comm, &is_there, &message, &status);
    if (!is_there) return false;
    MPI_Mrecv(data, (int)bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    *from = status.MPI_SOURCE;
    return true;
}

static Answer answer_to(long its_question) {
    double waited;
    return (Answer){where_am_i(&waited), its_question, is_about_to_end()};
}

// All ranks except the one at fault report it and then end the job. (A stopped rank may continue
// when it is told to end.)
static _Noreturn void end_with(const Verdict *v) {
    const long UNTIL_ALL_HAVE_SAID_IT = 300000000; // ns
    if (atomic_exchange(&ending, true))            // another thread is at it
        for (;;) pause();
    if (v->who != rank) say_error(v->hint, v->error);
    nanosleep(&(struct timespec){0, UNTIL_ALL_HAVE_SAID_IT}, NULL);
    clean_up_before_dying();
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    _exit(EXIT_FAILURE); // not exit(), whose handlers would tear down what other threads still use
}

static void answer_others(void) {
    long theirs_to_me;
    Answer theirs;
    Verdict verdict;
    int from;
    while (poll_for(&theirs_to_me, sizeof theirs_to_me, ASK, &from)) {
        Answer mine = answer_to(theirs_to_me);
        post(&mine, sizeof mine, from, ANSWER);
    }
    while (poll_for(&theirs, sizeof theirs, ANSWER, &from)) { answers[from] = theirs; }
    if (poll_for(&verdict, sizeof verdict, VERDICT, &from)) end_with(&verdict);
}

static void ask_all(void) {
    question++;
    asked_at = seconds_now();
    for (int r = 0; r < size; r++)
        if (r != rank) post(&question, sizeof question, r, ASK);
}

// ## Which rank it is

// What is known about a rank after all have been asked. Later states explain more.
typedef enum { FINE, ELSEWHERE, BEHIND, SILENT, ENDING } State;

static State state_of(int r, const Place *mine) {
    const Answer *answer = &answers[r];
    const Place *theirs = &answer->place;
    if (r == rank) return FINE;
    if (answer->question != question) return SILENT;
    if (answer->ends) return ENDING; // it says why itself
    if (theirs->number < mine->number && !theirs->inside) return BEHIND;
    bool same = theirs->number == mine->number && strcmp(theirs->what, mine->what) == 0 &&
                strcmp(theirs->why, mine->why) == 0;
    return theirs->inside && !same ? ELSEWHERE : FINE;
}

// The first rank with the worst state.
static int rank_at_fault(const Place *mine, State *state) {
    int who = 0;
    for (int r = 1; r < size; r++)
        if (state_of(r, mine) > state_of(who, mine)) who = r;
    *state = state_of(who, mine);
    return who;
}

// "all_reduce 17 (bucket 1, step 42)"
static void text_of(const Place *place, char text[], size_t length) {
    const char *begin = *place->why ? " (" : "", *end = *place->why ? ")" : "";
    snprintf(text, length, "%s %ld%s%s%s", place->number ? place->what : "the beginning",
             place->number, begin, place->why, end);
}

static Verdict verdict_on(int who, State state, const Place *mine) {
    static const char *const hints[] = {
        [FINE] = "is a link between the hosts down, or very slow?",
        [ELSEWHERE] = "all ranks have to make the same collectives in the same order",
        [BEHIND] = "does it compute for long? A larger --timeout lets the others wait",
        [SILENT] = "is it stopped, or is its host or network down?"};
    char here_is[160], there[160], end[200] = "";
    Verdict v = {.who = state == SILENT || state == BEHIND ? who : -1};
    text_of(mine, here_is, sizeof here_is);
    text_of(&answers[who].place, there, sizeof there);
    if (state == SILENT) snprintf(end, sizeof end, "it has not answered for %.3g s", timeout);
    if (state == BEHIND) snprintf(end, sizeof end, "after %s it does something else", there);
    if (*end)
        snprintf(v.error, sizeof v.error, "rank %d on %s has not reached %s: %s", who, hosts[who],
                 here_is, end);
    else if (state == ELSEWHERE)
        snprintf(v.error, sizeof v.error, "rank %d on %s is in %s, while rank %d is in %s", who,
                 hosts[who], there, rank, here_is);
    else
        snprintf(v.error, sizeof v.error, "all ranks are in %s, and nothing has moved for %.3g s",
                 here_is, timeout);
    snprintf(v.hint, sizeof v.hint, "%s", hints[state]);
    return v;
}

// This rank waits too long, and the others had time to answer.
static void judge_the_others(void) {
    double waited;
    State state;
    Place mine = where_am_i(&waited);
    if (waited < timeout) return; // something has moved meanwhile
    int who = rank_at_fault(&mine, &state);
    if (state == ENDING || (state == BEHIND && atomic_load(&patient))) {
        watch_progress(); // and asks again
        return;
    }
    Verdict verdict = verdict_on(who, state, &mine);
    for (int r = 0; r < size; r++)
        if (r != rank) post(&verdict, sizeof verdict, r, VERDICT);
    end_with(&verdict);
}

static void *watch(void *unused) {
    const double to_answer = fmin(timeout / 3, 2); // seconds
    bool asked = false;
    while (atomic_load(&running)) {
        double waited;
        where_am_i(&waited); // seconds since the last arrival; 0: in no collective
        answer_others();     // those that ask this rank
        if (waited < timeout - to_answer) {
            asked = false;
        } else if (!asked) {
            ask_all();
            asked = true;
        } else if (waited >= timeout && seconds_now() - asked_at >= to_answer) {
            judge_the_others(); // names a rank and ends the job, or asks again
            asked = false;
        }
        nanosleep(&(struct timespec){0, 10000000}, NULL); // 10 ms
    }
    return unused;
}

void watch_start(MPI_Comm its_comm, const char *const its_hosts[], double its_timeout) {
    comm = its_comm;
    hosts = its_hosts;
    timeout = its_timeout;
    rank = 0;
    size = 1;
    if (comm == MPI_COMM_NULL) return;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size == 1) return;
    answers = xcalloc((size_t)size, sizeof *answers);
    atomic_store(&running, true);
    if (pthread_create(&thread, NULL, watch, NULL) != 0)
        die("raise `ulimit -u`", "cannot start the thread that watches the other ranks");
}

void watch_stop(void) {
    if (atomic_exchange(&running, false)) pthread_join(thread, NULL);
    free(answers);
    answers = NULL;
    question = 0;
    here = (Place){0};
}
