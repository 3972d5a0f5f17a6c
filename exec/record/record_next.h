#pragma once

/* The library's own functions, of which a recorder defines functions of the same names. */

/* The next definition of a function; library: where it is if the program opened that for itself.
 * Without one the program stops, as it does without the recorder: its call has no definition. */
void *record_next(const char *name, const char *library);

/* real_X: the library's own function, found at its first use by any thread. The file defines
 * find(). The pointer is kept as data: gcc 12 reads an atomic function pointer without atomicity
 * where it is called. */
#define REAL(name)                    \
    static void *_Atomic found_##name; \
    if (!found_##name)                \
        found_##name = find(#name);   \
    __typeof__(&name) real_##name = (__typeof__(&name))found_##name
