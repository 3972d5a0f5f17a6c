#pragma once

#include <stddef.h>
#include <stdint.h>

/* Profilers of torch before 2.1 write names as they are: raw newlines and control characters, lone
 * backslashes, quotes. Makes such a text JSON again, in place and without moving a byte. Returns
 * how many bytes it changed; 0: it found nothing that it could mend. */
int64_t traces_repair_text(char *text, size_t len);
