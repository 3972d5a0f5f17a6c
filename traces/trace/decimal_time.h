#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A decimal number as text ("1712195495519689.123", "-4", "2.5e3") times 10^power as a whole
 * number, rounded half away from zero; no double in between. False: no number, or beyond int64. */
bool traces_decimal(const char *text, size_t len, int power, int64_t *value);
