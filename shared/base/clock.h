#pragma once

double lw_now_s(void); /* CLOCK_MONOTONIC, seconds */
double lw_cpu_s(void); /* of a processor, taken by this process until now */
