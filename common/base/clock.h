// clock.h: the time that this computer measures.
#ifndef CLOCK_H
#define CLOCK_H

double seconds_now(void); // a clock that never goes back

#endif
