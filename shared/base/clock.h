#pragma once

double lw_now_s(void); /* CLOCK_MONOTONIC, seconds */
