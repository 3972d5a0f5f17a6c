/* Units: picoseconds, bytes, and how people write them. Every conversion rounds half up once. */
#include "shared/numbers/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/numbers/checked.h"

lw_ns lw_ps_to_ns(lw_ps t)
{
    int64_t q = t / LW_PS_PER_NS, r = t % LW_PS_PER_NS;
    if (r < 0) {
        q--;
        r += LW_PS_PER_NS;
    }
    return q + (r >= LW_PS_PER_NS / 2);
}

lw_ps lw_ns_to_ps(lw_ns t)
{
    return lw_mul_sat(t, LW_PS_PER_NS);
}

static int64_t round_half_up(double x)
{
    if (!(x < 9.2e18))
        return INT64_MAX;
    int64_t q = (int64_t)x;
    return q + (x - (double)q >= 0.5);
}

lw_ps lw_ps_from_seconds(double s)
{
    return round_half_up(s * 1e12);
}

lw_ps lw_transfer_ps(int64_t bytes, double bytes_per_s)
{
    if (bytes <= 0 || !(bytes_per_s > 0))
        return bytes <= 0 ? 0 : INT64_MAX;
    if (bytes_per_s < 9e18 && bytes_per_s == (double)(int64_t)bytes_per_s) {
        unsigned __int128 rate = (unsigned __int128)(int64_t)bytes_per_s;
        unsigned __int128 t = ((unsigned __int128)bytes * LW_PS_PER_S + rate / 2) / rate;
        return t > INT64_MAX ? INT64_MAX : (lw_ps)t;
    }
    return round_half_up((double)bytes / bytes_per_s * 1e12);
}

struct unit {
    const char *name;
    double factor;
};

static const struct unit size_units[] = {
    {"", 1},        {"B", 1},          {"KiB", 1024.0},          {"MiB", 1048576.0},
    {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}, {"KB", 1e3}, {"MB", 1e6},
    {"GB", 1e9},    {"TB", 1e12},
};

static const struct unit time_units[] = {
    {"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12},
};

#define MOST 9.2e18 /* of a size or a time: below 2^63, and a double that rounds to below it */

static enum lw_status parse_with_unit(const char *text, const struct unit *units, size_t n_units,
                                      const char *what, const char *allowed, int64_t *value,
                                      struct lw_err *err)
{
    char *end;

    errno = 0;
    double x = strtod(text, &end);
    if (end == text || (size_t)(end - text) > strspn(text, "+-.0123456789eE")) /* hex, inf, nan */
        return lw_fail(err, LW_EINVAL, "'%s' is not a %s; expected %s", text, what, allowed);
    if (errno == ERANGE || x < 0)
        return lw_fail(err, LW_EINVAL, "%s '%s' is out of range; expected 0 or more, as %s",
                                       what, text,
                       allowed);
    for (size_t i = 0; i < n_units; i++) {
        if (strcasecmp(end, units[i].name) != 0)
            continue;
        if (x * units[i].factor >= MOST)
            return lw_fail(err, LW_EINVAL, "%s '%s' is %.3g %s, allowed: less than %.3g", what,
                           text, x * units[i].factor, units[0].name[0] ? units[0].name : "bytes",
                           MOST);
        if (units == size_units && units[i].factor == 1 && x != floor(x))
            return lw_fail(err, LW_EINVAL, "size '%s' has a part of a byte; expected whole "
                                           "bytes, or a unit: KiB MiB GiB TiB, KB MB GB TB",
                           text);
        *value = round_half_up(x * units[i].factor);
        return LW_OK;
    }
    char hint[64] = "";
    if (units == size_units && *end && strchr("kKmMgGtT", *end) &&
        (!end[1] || (tolower((unsigned char)end[1]) == 'i' && !end[2])))
        snprintf(hint, sizeof hint, " (did you mean '%.*s%ciB'?)",
                 (int)(end - text > 24 ? 24 : end - text), text, toupper((unsigned char)*end));
    return lw_fail(err, LW_EINVAL, "'%s': unknown unit '%s'%s; expected %s", text, end, hint,
                   allowed);
}

enum lw_status lw_parse_size(const char *text, int64_t *bytes, struct lw_err *err)
{
    return parse_with_unit(text, size_units, sizeof size_units / sizeof *size_units, "size",
                           "a number with KiB MiB GiB TiB, KB MB GB TB, or bytes", bytes, err);
}

enum lw_status lw_parse_time(const char *text, lw_ps *t, struct lw_err *err)
{
    return parse_with_unit(text, time_units, sizeof time_units / sizeof *time_units, "time",
                           "a number with ps, ns, us, ms or s", t, err);
}

enum lw_status lw_parse_int(const char *text, int64_t min, int64_t max, int64_t *value,
                            struct lw_err *err)
{
    char *end;

    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno == ERANGE || v < min || v > max)
        return lw_fail(err, LW_EINVAL, "'%s' is not a whole number from %lld to %lld", text,
                       (long long)min, (long long)max);
    *value = v;
    return LW_OK;
}

char *lw_format_bytes(char *buf, int64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double x = (double)bytes;
    int i = 0;

    while (i < 5 && (x >= 1024 || x <= -1024)) {
        x /= 1024;
        i++;
    }
    snprintf(buf, 32, i ? "%.2f %s" : "%.0f %s", x, names[i]);
    return buf;
}

char *lw_exact_bytes(char *buf, int64_t bytes)
{
    char about[32];

    if (bytes > -1024 && bytes < 1024)
        return lw_format_bytes(buf, bytes);
    snprintf(buf, 64, "%s (%lld B)", lw_format_bytes(about, bytes), (long long)bytes);
    return buf;
}

static char *format_time(char *buf, double ps)
{
    static const struct unit show[] = {{"s", 1e12}, {"ms", 1e9}, {"us", 1e6}, {"ns", 1e3}};
    double size = ps < 0 ? -ps : ps;

    for (size_t i = 0; i < 4; i++) {
        if (size >= show[i].factor) {
            snprintf(buf, 32, "%.3f %s", ps / show[i].factor, show[i].name);
            return buf;
        }
    }
    snprintf(buf, 32, "%.0f ps", ps);
    return buf;
}

char *lw_format_ps(char *buf, lw_ps t)
{
    return format_time(buf, (double)t);
}

char *lw_format_ns(char *buf, lw_ns t)
{
    return format_time(buf, 1e3 * (double)t);
}
