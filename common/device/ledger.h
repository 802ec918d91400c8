// ledger.h: who sent how many bytes to whom.
#ifndef LEDGER_H
#define LEDGER_H

#include <stdint.h>

typedef struct Device Device;

// Bytes copied from one device to another since the last reset. Copies within one device do not
// count: they cross nothing. Two logical devices on one GPU count as two.
void ledger_reset(void);
uint64_t ledger_bytes(const Device *from, const Device *to);
// All bytes between two different devices, those to and from the host left out.
uint64_t ledger_bytes_between_devices(void);
// Bytes to and from the host.
uint64_t ledger_bytes_host(void);

// Cargo: the sum of all floats that were copied from one device to another since
// ledger_watch_cargo(); exact for whole numbers. So it tells what went, not only how much. Between
// CPU devices only; read it after synchronize_all().
void ledger_watch_cargo(void);
double ledger_cargo(const Device *from, const Device *to);

#endif
