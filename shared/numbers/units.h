#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Time inside engines, costs and plans: picoseconds. Files, store and output show ns. */
typedef int64_t lw_ps;
typedef int64_t lw_ns;

/* The longest time that lw_ps holds: 106 days. Readers refuse longer ones. */
#define LW_MOST_NS (INT64_MAX / 1000)

#define LW_PS_PER_NS INT64_C(1000)
#define LW_PS_PER_US INT64_C(1000000)
#define LW_PS_PER_MS INT64_C(1000000000)
#define LW_PS_PER_S INT64_C(1000000000000)

lw_ns lw_ps_to_ns(lw_ps t);           /* rounds half up, also below zero: -1500 -> -1 */
lw_ps lw_ns_to_ps(lw_ns t);           /* saturates at INT64_MAX and INT64_MIN: 106 days */
lw_ps lw_ps_from_seconds(double s);   /* rounds half up; saturates at INT64_MAX */

/* Time to move `bytes` at `bytes_per_s`: rounds half up to the picosecond, computed in integers
 * where the rate is a whole number, so that a published closed form comes out exact. */
lw_ps lw_transfer_ps(int64_t bytes, double bytes_per_s);

/* "25MiB", "1.5GB", "1024" -> bytes. KiB MiB GiB TiB = 2^n, KB MB GB TB = 10^n, bare = bytes.
 * LW_EINVAL names the text when it is not a size, negative, or beyond int64. */
enum lw_status lw_parse_size(const char *text, int64_t *bytes, struct lw_err *err);

/* "250us", "1.5ms", "3s", "40ns", "7ps" -> picoseconds; a bare number is refused. */
enum lw_status lw_parse_time(const char *text, lw_ps *t, struct lw_err *err);

/* A whole number in [min, max]; LW_EINVAL says the range. */
enum lw_status lw_parse_int(const char *text, int64_t min, int64_t max, int64_t *value,
                            struct lw_err *err);

/* For people: the ending of a noun after that number. */
static inline const char *lw_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* For people: "25.00 MiB", "1.234 ms". buf must hold 32 bytes; returns buf.
 * lw_format_ns shows times beyond the 106 days of lw_ps too. */
char *lw_format_bytes(char *buf, int64_t bytes);
char *lw_exact_bytes(char *buf, int64_t bytes); /* "25.00 MiB (26214400 B)"; room for 64 bytes */
char *lw_format_ps(char *buf, lw_ps t);
char *lw_format_ns(char *buf, lw_ns t);
