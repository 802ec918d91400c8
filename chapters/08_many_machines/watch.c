// watch.c: see watch.h.
#include "watch.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "behind/launch.h"

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
    int group;   // of its last collective,
    long number; // which was this one of the group,
    bool inside; // and it is not yet through with it
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
static double moved;     // when something last arrived
static bool *in_group;   // which ranks are in the group
static long numbers[64]; // of the last collective of each group; groups beyond share the last place

static long *number_of(int group) {
    int last = sizeof numbers / sizeof numbers[0] - 1;
    return &numbers[group < last ? group : last];
}

// ## By the thread that communicates

void watch_enter(int group, const int members[], int members_size, long number, const char *what,
                 const char *why) {
    pthread_mutex_lock(&mutex);
    here = (Place){.group = group, .number = number, .inside = true};
    snprintf(here.what, sizeof here.what, "%s", what);
    snprintf(here.why, sizeof here.why, "%s", why);
    for (int r = 0; in_group && r < size; r++) in_group[r] = false;
    for (int m = 0; in_group && m < members_size; m++) in_group[members[m]] = true;
    *number_of(group) = number;
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

typedef struct Question {
    int group;
    long number; // of the question
} Question;

typedef struct Answer {
    Place place;
    long question;
    long number; // of its last collective of the group that it was asked about
    bool ends;   // it has an error to report, and will end by itself
} Answer;

typedef struct Verdict {
    int who; // keeps the others waiting; -1: none in particular
    char error[400], hint[160];
} Verdict;

static Question question; // the last one that this rank has asked,
static double asked_at;   // and when
static Answer *answers;   // one of each rank
static bool *answered, *members;

// The copy is never freed: these messages are few, and soon after them the job ends.
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

static Answer answer_to(Question q) {
    double waited;
    Answer answer = {.place = where_am_i(&waited), .question = q.number, .ends = is_about_to_end()};
    pthread_mutex_lock(&mutex);
    answer.number = *number_of(q.group);
    pthread_mutex_unlock(&mutex);
    return answer;
}

// All ranks but the one at fault report it, and then end the job. (That one may be stopped, and go
// on when it is told to end.)
static _Noreturn void end_with(const Verdict *v) {
    const long UNTIL_ALL_HAVE_SAID_IT = 300000000; // ns
    if (atomic_exchange(&ending, true))            // another thread is at it
        for (;;) pause();
    if (v->who != rank) say_error(v->hint, v->error);
    nanosleep(&(struct timespec){0, UNTIL_ALL_HAVE_SAID_IT}, NULL);
    clean_up_before_dying();
    launch_ends_with_us();
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    _exit(EXIT_FAILURE); // not exit(), whose handlers would tear down what other threads still use
}

static void answer_others(void) {
    Question theirs_to_me;
    Answer theirs;
    Verdict verdict;
    int from;
    while (poll_for(&theirs_to_me, sizeof theirs_to_me, ASK, &from)) {
        Answer mine = answer_to(theirs_to_me);
        post(&mine, sizeof mine, from, ANSWER);
    }
    while (poll_for(&theirs, sizeof theirs, ANSWER, &from)) {
        if (theirs.question != question.number) continue; // an earlier one
        answers[from] = theirs;
        answered[from] = true;
    }
    if (poll_for(&verdict, sizeof verdict, VERDICT, &from)) end_with(&verdict);
}

static void ask_all(const Place *mine) {
    question = (Question){.group = mine->group, .number = question.number + 1};
    asked_at = seconds_now();
    pthread_mutex_lock(&mutex);
    memcpy(members, in_group, sizeof *members * (size_t)size);
    pthread_mutex_unlock(&mutex);
    answers[rank] = answer_to(question);
    for (int r = 0; r < size; r++) {
        answered[r] = r == rank;
        if (r != rank) post(&question, sizeof question, r, ASK);
    }
}

// ## Which rank it is

// "all_reduce 17 (bucket 1, step 42)"
static const char *text_of(const Place *place, char text[], size_t length) {
    const char *begin = *place->why ? " (" : "", *end = *place->why ? ")" : "";
    snprintf(text, length, "%s %ld%s%s%s", place->what, place->number, begin, place->why, end);
    return text;
}

// (The rank that all wait for may be in another group: others wait for those that wait for it.)
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
// The first rank for which is(rank, mine) holds; -1: none.
static int first_rank(bool (*is)(int r, const Place *mine), const Place *mine) {
    for (int r = 0; r < size; r++)
        if (is(r, mine)) return r;
    return -1;
}

static Verdict judge(const Place *mine) {
    char here_text[160], there_text[160] = "the start";
    int silent = first_rank(is_silent, mine), behind = first_rank(is_behind, mine),
        elsewhere = first_rank(is_elsewhere, mine),
        who = silent >= 0   ? silent
              : behind >= 0 ? behind
                            : elsewhere;
    Verdict v = {.who = silent >= 0 || behind >= 0 ? who : -1};
    const char *hint = "all ranks have to make the same collectives in the same order";
    text_of(mine, here_text, sizeof here_text);
    if (who >= 0 && who != silent && answers[who].place.number > 0)
        text_of(&answers[who].place, there_text, sizeof there_text);
    if (silent >= 0) {
        snprintf(v.error, sizeof v.error,
                 "rank %d on %s has not reached %s: it has not answered for %.3g s", who,
                 hosts[who], here_text, timeout);
        hint = "is it stopped, or is its host or network down?";
    } else if (behind >= 0) {
        snprintf(v.error, sizeof v.error,
                 "rank %d on %s has not reached %s: after %s it does something else", who,
                 hosts[who], here_text, there_text);
        hint = "does it compute for long? A larger --timeout lets the others wait";
    } else if (elsewhere >= 0) {
        snprintf(v.error, sizeof v.error, "rank %d on %s is in %s, while rank %d is in %s", who,
                 hosts[who], there_text, rank, here_text);
    } else {
        snprintf(v.error, sizeof v.error, "all ranks are in %s, and nothing has moved for %.3g s",
                 here_text, timeout);
        hint = "is a link between the hosts down, or very slow?";
    }
    snprintf(v.hint, sizeof v.hint, "%s", hint);
    return v;
}

// A rank that ends by itself says why. And while ranks are patient, others may be at work.
static bool may_wait(const Place *mine) {
    if (first_rank(ends_itself, mine) >= 0) return true;
    return atomic_load(&patient) && first_rank(is_silent, mine) < 0 &&
           first_rank(is_behind, mine) >= 0;
}

// ## The thread

// To answer, ranks have a third of the time, at most two seconds, since they were asked. (This
// process, or all, may have been stopped in between.)
static bool judge_the_others(void) {
    double waited;
    Place mine = where_am_i(&waited);
    if (waited < timeout) return false; // something has moved meanwhile
    if (may_wait(&mine)) {
        watch_progress(); // and asks again
        return false;
    }
    Verdict verdict = judge(&mine);
    for (int r = 0; r < size; r++)
        if (r != rank) post(&verdict, sizeof verdict, r, VERDICT);
    end_with(&verdict);
}

static void *watch(void *unused) {
    const double to_answer = fmin(timeout / 3, 2);
    bool asked = false;
    while (atomic_load(&running)) {
        double waited;
        Place mine = where_am_i(&waited);
        answer_others();
        if (waited < timeout - to_answer) asked = false;
        if (!asked && waited >= timeout - to_answer) {
            ask_all(&mine);
            asked = true;
        }
        if (asked && waited >= timeout && seconds_now() - asked_at >= to_answer)
            asked = judge_the_others();
        nanosleep(&(struct timespec){0, 10000000}, NULL);
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
    answered = xcalloc((size_t)size, sizeof *answered);
    members = xcalloc((size_t)size, sizeof *members);
    pthread_mutex_lock(&mutex);
    in_group = xcalloc((size_t)size, sizeof *in_group);
    pthread_mutex_unlock(&mutex);
    atomic_store(&running, true);
    if (pthread_create(&thread, NULL, watch, NULL) != 0)
        die("raise `ulimit -u`", "cannot start the thread that watches the other ranks");
}

void watch_stop(void) {
    if (atomic_exchange(&running, false)) pthread_join(thread, NULL);
    free(answers);
    free(answered);
    free(members);
    free(in_group);
    answers = NULL;
    answered = members = in_group = NULL;
    memset(numbers, 0, sizeof numbers);
}
