#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Numbers with the form in which a cell of a table (shared/text/table.h) or a member of a JSON
 * object (shared/json/jsonout.h) shows them. */

/* A double with so many decimals; NaN: lacking, null in JSON. */
struct lw_decimals {
    double value;
    int digits;
};
static inline struct lw_decimals lw_decimals(double value, int digits)
{
    return (struct lw_decimals){value, digits};
}
static inline struct lw_decimals lw_decimals_if(bool known, double value, int digits)
{
    return lw_decimals(known ? value : (double)NAN, digits);
}

/* A whole number, or lacking: null in JSON, an empty cell. lw_known: a negative one is lacking. */
struct lw_maybe {
    int64_t value;
    bool known;
};
static inline struct lw_maybe lw_known_if(bool known, int64_t value)
{
    return (struct lw_maybe){value, known};
}
static inline struct lw_maybe lw_known(int64_t value)
{
    return lw_known_if(value >= 0, value);
}

/* A number with a unit. In a cell counts, bytes and milliseconds below 0 are "-"; JSON has counts
 * and bytes as they are, times in ns: whole, or LW_EXACT_NS with up to three decimals. */
struct lw_quantity {
    enum { LW_SHOW_COUNT, LW_SHOW_BYTES, LW_SHOW_PS, LW_SHOW_NS, LW_SHOW_MS, LW_SHOW_EXACT_NS } as;
    int64_t value;
};
#define LW_COUNT(n) ((struct lw_quantity){LW_SHOW_COUNT, n})
#define LW_BYTES(n) ((struct lw_quantity){LW_SHOW_BYTES, n})
#define LW_BYTES_OR_COUNT(n, csv) ((struct lw_quantity){csv ? LW_SHOW_COUNT : LW_SHOW_BYTES, n})
#define LW_PS(time) ((struct lw_quantity){LW_SHOW_PS, time}) /* lw_ps; a cell: as lw_format_ps */
#define LW_NS(time) ((struct lw_quantity){LW_SHOW_NS, time}) /* the same of a time in ns */
#define LW_MS(time) ((struct lw_quantity){LW_SHOW_MS, time}) /* lw_ps as ms with 3 decimals */
#define LW_EXACT_NS(time) ((struct lw_quantity){LW_SHOW_EXACT_NS, time}) /* lw_ps */

/* 100 part / whole; 0 where whole is not above 0. */
static inline double lw_percent(double part, double whole)
{
    return whole > 0 ? 100.0 * part / whole : 0;
}
