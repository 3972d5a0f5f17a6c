/* Exact times from decimal text. Traces give microseconds since 1970 with three decimals: 19
 * digits, more than a double holds (its spacing there is 0.25 us). So the digits are collected
 * as an integer and the point only moves a power of ten. Digits beyond the 30th cannot change a
 * result that fits int64: rounding half away from zero looks at the first dropped digit alone. */
#include "traces/trace/decimal_time.h"

typedef unsigned __int128 wide;

enum { MAX_DIGITS = 30 };

struct number {
    wide digits;
    int64_t power;
    int n_digits;
    bool negative, any;
};

static void take_digit(struct number *n, int digit, bool fraction)
{
    n->any = true;
    if (n->n_digits < MAX_DIGITS) {
        n->digits = n->digits * 10 + (unsigned)digit;
        n->n_digits += n->digits != 0;
        n->power -= fraction;
    } else {
        n->power += !fraction;
    }
}

static bool take_exponent(const char *p, const char *end, struct number *n)
{
    int64_t exponent = 0;
    bool negative = p < end && *p == '-';

    p += p < end && (*p == '-' || *p == '+');
    if (p == end)
        return false;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        exponent = exponent < INT32_MAX ? exponent * 10 + (*p - '0') : exponent;
    }
    n->power += negative ? -exponent : exponent;
    return true;
}

static bool scan(const char *text, size_t len, struct number *n)
{
    if (len == 0) /* text may be NULL */
        return false;
    const char *p = text, *end = text + len;
    bool fraction = false;

    n->negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    for (; p < end; p++) {
        if (*p >= '0' && *p <= '9')
            take_digit(n, *p - '0', fraction);
        else if (*p == '.' && !fraction)
            fraction = true;
        else if ((*p == 'e' || *p == 'E') && n->any)
            return take_exponent(p + 1, end, n);
        else
            return false;
    }
    return n->any;
}

static wide divide(wide digits, int64_t power)
{
    unsigned dropped = 0;

    for (; power > 0 && (digits != 0 || dropped != 0); power--) {
        dropped = (unsigned)(digits % 10);
        digits /= 10;
    }
    return digits + (dropped >= 5);
}

/* Nearly all: a number without exponent and without digits beyond the power, below 10^19 then.
 * False: not told. */
static bool plain(const char *text, size_t len, int power, int64_t *value)
{
    static const uint64_t ten_to[] = {1, 10, 100, 1000};
    size_t minus = len > 0 && *text == '-', n = len - minus, left = 0;
    uint64_t digits = 0;

    if (n == 0 || n > 20 || power < 0 || (size_t)power >= sizeof ten_to / sizeof *ten_to)
        return false;
    for (const char *p = text + minus, *end = text + len; p < end; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (digit < 10)
            digits = digits * 10 + digit;
        else if (*p == '.' && left == 0)
            left = (size_t)(end - p); /* the point and what follows */
        else
            return false;
    }
    n -= left > 0;
    size_t fraction = left > 0 ? left - 1 : 0;
    if (n == 0 || fraction > (size_t)power || n + (size_t)power - fraction > 19)
        return false;
    digits *= ten_to[(size_t)power - fraction];
    if (digits > INT64_MAX)
        return false;
    *value = minus ? -(int64_t)digits : (int64_t)digits;
    return true;
}

bool traces_decimal(const char *text, size_t len, int power, int64_t *value)
{
    struct number n = {0};
    wide limit = INT64_MAX;

    if (plain(text, len, power, value))
        return true;
    if (!scan(text, len, &n))
        return false;
    n.power += power;
    if (n.power < 0)
        n.digits = divide(n.digits, -n.power);
    for (; n.power > 0 && n.digits != 0 && n.digits <= limit; n.power--)
        n.digits *= 10;
    if (n.digits > limit)
        return false;
    *value = n.negative ? -(int64_t)n.digits : (int64_t)n.digits;
    return true;
}
