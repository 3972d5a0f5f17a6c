/* Spans as JSON text that packs well and that SQL can read (json_each): an array with, for each
 * row, the number of its code in a list that the run's texts share, or the code itself:
 *   [op, kind, stream, comm, start, ready, issue, all_in, end]
 * op and start are less those of the row before (in the first row: 0), ready and issue say how long
 * before the start they are, all_in and end how long after; null = unknown (-1). Layers and
 * micro-batches that take equally long then have equal codes.
 *   [op, kind, stream, comm, start, null, issue, all_in, end, held]
 * is a row that was ready at the time that is held (in the first row: its start) plus `held`, which
 * is the held time from then on; issue is less that. Ops that wait for one event, as the
 * micro-batches of a backward that begins when the forward has ended, differ in how long before
 * their start it was, and not in held, 0. Sums and differences wrap, so that every int64 comes
 * back. */
#include "analysis/store/span_pack.h"

#include <string.h>

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static char *write_int(char *to, int64_t v)
{
    char digits[20];
    int n = 0;
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;

    do
        digits[n++] = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *to++ = '-';
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

/* A difference that a sum of SQL can add to others of a block. */
static bool is_small(int64_t v)
{
    return v > -(INT64_C(1) << 48) && v < INT64_C(1) << 48;
}

static void set_known(struct span_code *c, enum span_value k, int64_t time, int64_t difference)
{
    c->v[k] = time != -1 ? difference : 0;
    c->unknown |= time != -1 ? 0 : 1 << k;
}

void span_encode(const int64_t (*rows)[SPAN_N_VALUES], int64_t n, const bool *holds,
                 struct span_code *codes)
{
    int64_t op = n > 0 ? rows[0][SPAN_OP] : 0, start = n > 0 ? rows[0][SPAN_START] : 0;
    int64_t held = start;

    for (int64_t i = 0; i < n; i++) {
        const int64_t *r = rows[i], s = r[SPAN_START], wait = minus(s, r[SPAN_READY]);
        bool holding = holds && holds[i] && wait > 0 && is_small(wait) &&
                       is_small(minus(r[SPAN_READY], held));
        struct span_code c = {.unknown = 1 << (holding ? SPAN_READY : SPAN_HELD)};
        for (int k = SPAN_KIND; k <= SPAN_COMM; k++)
            c.v[k] = r[k];
        c.v[SPAN_OP] = minus(r[SPAN_OP], op);
        c.v[SPAN_START] = minus(s, start);
        c.v[SPAN_READY] = holding ? 0 : wait;
        c.v[SPAN_HELD] = holding ? minus(r[SPAN_READY], held) : 0;
        set_known(&c, SPAN_ISSUE, r[SPAN_ISSUE],
                  minus(holding ? r[SPAN_READY] : s, r[SPAN_ISSUE]));
        set_known(&c, SPAN_ALL_IN, r[SPAN_ALL_IN], minus(r[SPAN_ALL_IN], s));
        c.v[SPAN_END] = minus(r[SPAN_END], s);
        codes[i] = c;
        op = r[SPAN_OP];
        start = s;
        held = holding ? r[SPAN_READY] : held;
    }
}

static char *write_code(char *to, const struct span_code *c)
{
    int n = c->unknown >> SPAN_HELD & 1 ? SPAN_N_VALUES : SPAN_N_CODED;

    for (int k = 0; k < n; k++) {
        *to++ = k == 0 ? '[' : ',';
        if (c->unknown >> k & 1) {
            memcpy(to, "null", 4);
            to += 4;
        } else {
            to = write_int(to, c->v[k]);
        }
    }
    *to++ = ']';
    return to;
}

size_t span_write(const struct span_code *codes, int64_t n, const int64_t *numbers, char *to)
{
    char *at = to;

    *at++ = '[';
    for (int64_t i = 0; i < n; i++) {
        at = numbers && numbers[i] >= 0 ? write_int(at, numbers[i]) : write_code(at, &codes[i]);
        *at++ = i + 1 < n ? ',' : ']';
    }
    if (n == 0)
        *at++ = ']';
    return (size_t)(at - to);
}

/* --- reading --------------------------------------------------------------------------------- */

struct reader {
    const char *at, *end;
};

static bool take(struct reader *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_int(struct reader *r, int64_t *v)
{
    bool negative = take(r, '-');
    const char *first = r->at;
    uint64_t u = 0;

    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        u = u * 10 + (uint64_t)(*r->at++ - '0');
    *v = (int64_t)(negative ? -u : u);
    return r->at > first && r->at - first <= 20;
}

static bool take_value(struct reader *r, struct span_code *c, int k)
{
    bool known = !(r->end - r->at >= 4 && memcmp(r->at, "null", 4) == 0);

    if (known)
        return take_int(r, &c->v[k]);
    r->at += 4;
    c->unknown |= 1 << k;
    return true;
}

static bool take_code(struct reader *r, struct span_code *c)
{
    int64_t may_lack = 1 << SPAN_READY | 1 << SPAN_ISSUE | 1 << SPAN_ALL_IN;

    *c = (struct span_code){.unknown = 0};
    for (int k = 0; k < SPAN_N_VALUES; k++)
        if (!take(r, k == 0 ? '[' : ',') || !take_value(r, c, k))
            return false;
    if (c->unknown & ~may_lack)
        return false;
    if (!(c->unknown >> SPAN_READY & 1))
        c->unknown |= 1 << SPAN_HELD;
    else if (!take(r, ',') || !take_int(r, &c->v[SPAN_HELD]))
        return false;
    return take(r, ']');
}

/* A code, or the number of one. NULL: neither. */
static const struct span_code *take_element(struct reader *r, struct span_codes known,
                                            struct span_code *room)
{
    int64_t number;

    if (r->at < r->end && *r->at == '[')
        return take_code(r, room) ? room : NULL;
    return take_int(r, &number) && number >= 0 && number < known.n ? &known.v[number] : NULL;
}

bool span_read(const char *text, size_t len, struct span_codes known, int64_t op, int64_t start,
               int64_t (*rows)[SPAN_N_VALUES], int64_t n)
{
    struct reader r = {text, text + len};
    struct span_code room;
    int64_t held = start;

    if (!take(&r, '['))
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t *v = rows[i];
        const struct span_code *c = take_element(&r, known, &room);
        if (!c || !take(&r, i + 1 < n ? ',' : ']'))
            return false;
        bool holding = c->unknown >> SPAN_READY & 1;
        for (int k = SPAN_KIND; k <= SPAN_COMM; k++)
            v[k] = c->v[k];
        v[SPAN_OP] = op = plus(op, c->v[SPAN_OP]);
        v[SPAN_START] = start = plus(start, c->v[SPAN_START]);
        held = plus(held, c->v[SPAN_HELD]);
        v[SPAN_READY] = holding ? held : minus(start, c->v[SPAN_READY]);
        v[SPAN_ISSUE] = c->unknown >> SPAN_ISSUE & 1
                            ? -1 : minus(holding ? held : start, c->v[SPAN_ISSUE]);
        v[SPAN_ALL_IN] = c->unknown >> SPAN_ALL_IN & 1 ? -1 : plus(start, c->v[SPAN_ALL_IN]);
        v[SPAN_END] = plus(start, c->v[SPAN_END]);
    }
    return (n > 0 || take(&r, ']')) && r.at == r.end;
}
