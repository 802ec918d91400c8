// collectives_table.h: what each way to sum over ranks sends, and whether it has the bits of one
// process.
#ifndef COLLECTIVES_TABLE_H
#define COLLECTIVES_TABLE_H

// All ranks together; rank 0 prints. die()s if bytes differ from the formula, or bits from those of
// as many devices in one process.
void compare_collectives(void);

#endif
