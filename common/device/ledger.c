// ledger.c: see ledger.h.
#include "ledger.h"
#include "backend.h"

#include <string.h>

static Ledger ledger;
enum { HOST_ID = NUM_DEVICE_IDS - 1 };

void ledger_add(const Device *from, const Device *to, size_t bytes) {
    if (from != to) ledger[from->id][to->id] += bytes;
}

void ledger_read(Ledger now) { memcpy(now, ledger, sizeof ledger); }

void ledger_take_back(Ledger since) {
    for (int from = 0; from < NUM_DEVICE_IDS; from++)
        for (int to = 0; to < NUM_DEVICE_IDS; to++) {
            uint64_t before = since[from][to];
            since[from][to] = ledger[from][to] - before;
            ledger[from][to] = before;
        }
}

void ledger_add_all(Ledger more) {
    for (int from = 0; from < NUM_DEVICE_IDS; from++)
        for (int to = 0; to < NUM_DEVICE_IDS; to++) ledger[from][to] += more[from][to];
}

void ledger_reset(void) { memset(ledger, 0, sizeof ledger); }

uint64_t ledger_bytes(const Device *from, const Device *to) { return ledger[from->id][to->id]; }

uint64_t ledger_bytes_between_devices(void) {
    uint64_t total = 0;
    for (int from = 0; from < HOST_ID; from++)
        for (int to = 0; to < HOST_ID; to++) total += ledger[from][to];
    return total;
}

uint64_t ledger_bytes_host(void) {
    uint64_t total = 0;
    for (int id = 0; id < HOST_ID; id++) total += ledger[id][HOST_ID] + ledger[HOST_ID][id];
    return total;
}
