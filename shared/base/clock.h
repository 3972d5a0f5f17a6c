#ifndef LW_SHARED_BASE_CLOCK_H
#define LW_SHARED_BASE_CLOCK_H

double lw_now_s(void); /* CLOCK_MONOTONIC, seconds */

#endif
