#pragma once

#include <stddef.h>

/* A hint: these n bytes will be filled, so large pages suit them (a page fault per 2 MiB and not
 * per 4 KiB). Does nothing below 4 MiB, and where the system has no such pages. */
void lw_alloc_large(void *p, size_t n);
/* What is held of these n bytes goes back to the system; they read as anything from then on, and
 * are still to be freed. */
void lw_alloc_give_back(void *p, size_t n);
