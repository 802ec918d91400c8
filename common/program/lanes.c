// lanes.c: groups spans by queue, and guesses the kind of those without a label.
#include "lanes.h"
#include "common/base/error.h"

#include <string.h>

int lanes_of(const SpanSet *set, Lane **lanes) {
    int n = 0;
    *lanes = NULL;
    for (int i = 0; i < set->count; i++) {
        const TraceSpan *span = &set->spans[i];
        Lane *last = n > 0 ? &(*lanes)[n - 1] : NULL;
        if (last && last->device == span->device && last->communicates == span->communicates) {
            last->count++;
            continue;
        }
        *lanes = xgrow(*lanes, (size_t)n + 1, sizeof **lanes);
        (*lanes)[n++] = (Lane){span->device, span->communicates, span, 1};
    }
    return n;
}

// ---- kinds of work ---------------------------------------------------------------------------

static const char *const names[NUM_WORK_KINDS] = {"compute", "forward", "backward", "exchange",
                                                  "load",    "update",  "read",     "other"};

const char *work_kind_name(WorkKind kind) { return names[kind]; }

// The kind with whose name the label begins; NUM_WORK_KINDS: none.
static WorkKind kind_of_label(const char *label) {
    for (int kind = 0; kind < NUM_WORK_KINDS; kind++) {
        size_t length = strlen(names[kind]);
        bool begins = strncmp(label, names[kind], length) == 0;
        if (begins && (label[length] == ' ' || !label[length])) return (WorkKind)kind;
    }
    return NUM_WORK_KINDS;
}

static WorkKind as_computed_before(WorkKind before) {
    return before == WORK_FORWARD || before == WORK_BACKWARD ? before : WORK_OTHER;
}

// For work that may also be part of an exchange.
static WorkKind as_before(WorkKind before) {
    return before == WORK_EXCHANGE ? before : as_computed_before(before);
}

static WorkKind kind_of_copy(const TraceSpan *span, WorkKind before) {
    if (span->from == span->to) return as_before(before);
    if (span->from == host()) return WORK_LOAD;
    return span->to == host() ? WORK_READ : WORK_EXCHANGE;
}

static WorkKind kind_of_kernel(const char *name, WorkKind before) {
    if (strstr(name, "_backward")) return WORK_BACKWARD;
    if (strstr(name, "_forward")) return WORK_FORWARD;
    if (strcmp(name, "sgd") == 0) return WORK_UPDATE;
    if (strcmp(name, "gemm") == 0) return before == WORK_BACKWARD ? WORK_BACKWARD : WORK_FORWARD;
    return strcmp(name, "add") == 0 ? as_before(before) : as_computed_before(before);
}

WorkKind work_kind(const TraceSpan *span, WorkKind before) {
    WorkKind labelled = kind_of_label(span->label);
    if (labelled != NUM_WORK_KINDS) return labelled;
    return span->from ? kind_of_copy(span, before) : kind_of_kernel(span->work, before);
}

const char *work_detail(const TraceSpan *span) {
    if (!span->label[0]) return span->work;
    WorkKind kind = kind_of_label(span->label);
    if (kind == NUM_WORK_KINDS) return span->label;
    const char *rest = span->label + strlen(names[kind]);
    return rest[0] ? rest + 1 : rest;
}
