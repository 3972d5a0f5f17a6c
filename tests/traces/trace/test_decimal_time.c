/* Numbers as text to integers: usual ones on a short way, the rest on a long one, both exact. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/prng.h"
#include "traces/trace/decimal_time.h"

static const struct {
    const char *text;
    int power;
    bool is;
    int64_t value;
} cases[] = {
    {"0", 3, true, 0},
    {"-0.0", 3, true, 0},
    {"7", 3, true, 7000},
    {"7.", 3, true, 7000},
    {".5", 3, true, 500},
    {"-1.25", 3, true, -1250},
    {"1623143089861234.567", 3, true, 1623143089861234567},
    {"9223372036854775.807", 3, true, INT64_MAX},
    {"9223372036854775.808", 3, false, 0},
    {"9223372036854775807", 0, true, INT64_MAX},
    {"9223372036854775808", 0, false, 0},
    {"-9223372036854775807", 0, true, -INT64_MAX},
    {"9999999999999999", 3, false, 0},
    {"99999999999999999999", 0, false, 0},
    {"0.0005", 3, true, 1},
    {"0.0004999", 3, true, 0},
    {"12.3456", 3, true, 12346},
    {"-12.3456", 3, true, -12346},
    {"1.5", 0, true, 2},
    {"1e3", 0, true, 1000},
    {"1.5e-1", 3, true, 150},
    {"+4", 3, true, 4000},
    {"000000000000000000000000012", 0, true, 12},
    {"1.000000000000000000000000000000", 3, true, 1000},
    {"", 3, false, 0},
    {"-", 3, false, 0},
    {".", 3, false, 0},
    {"-.", 3, false, 0},
    {"1.2.3", 3, false, 0},
    {"1..2", 3, false, 0},
    {"1-2", 3, false, 0},
    {"12a", 3, false, 0},
    {"e5", 3, false, 0},
    {"1/2", 0, false, 0},
    {"1:2", 0, false, 0},
};

TEST(decimals_are_exact)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 0;
        bool is = traces_decimal(cases[i].text, strlen(cases[i].text), cases[i].power, &value);
        if (is != cases[i].is || (is && value != cases[i].value))
            fail_msg("'%s' with power %d: %s %lld", cases[i].text, cases[i].power,
                     is ? "read as" : "refused,", (long long)value);
    }
}

/* An exponent of 0 changes no number and takes the long way. */
TEST(both_ways_agree)
{
    char text[64], longer[72];
    struct prng r = prng_start("decimals");

    for (int i = 0; i < 200000; i++) {
        int n = 0, digits = 1 + prng_below(&r, 21), point = prng_below(&r, 24);
        if (prng_below(&r, 4) == 0)
            text[n++] = '-';
        for (int k = 0; k < digits; k++) {
            if (k == point)
                text[n++] = '.';
            text[n++] = (char)('0' + prng_below(&r, 10));
        }
        text[n] = 0;
        snprintf(longer, sizeof longer, "%se0", text);
        int power = prng_below(&r, 4);
        int64_t a = 0, b = 0;
        bool is = traces_decimal(text, strlen(text), power, &a);
        bool too = traces_decimal(longer, strlen(longer), power, &b);
        if (is != too || a != b)
            fail_msg("'%s' with power %d: %lld, on the long way %lld", text, power, (long long)a,
                     (long long)b);
    }
}
