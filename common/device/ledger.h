// ledger.h: how many bytes each device sent to every other. To count what a piece of work moves,
// call ledger_reset(), enqueue the work, and ask. There is no need to wait, because copies are
// entered when they are enqueued.
#pragma once

#include <stdint.h>

typedef struct Device Device;

// Bytes copied from one device to another since the last reset. Copies within one device do not
// count. Two logical devices on one GPU count as two.
void ledger_reset(void);
uint64_t ledger_bytes(const Device *from, const Device *to);
// All bytes between two different devices, without the host.
uint64_t ledger_bytes_between_devices(void);
// Bytes to and from the host.
uint64_t ledger_bytes_host(void);
