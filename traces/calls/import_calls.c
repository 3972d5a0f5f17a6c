/* Reads what exec/record/record_file.c writes. Lines are independent of each other but for two
 * rules: a communicator's line precedes its calls, and a call's line precedes its span. */
#include "traces/calls/import_calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/numbers/units.h"

static const char MARK[] = "# lapwing-calls 1";

enum { MAX_FIELDS = 12, MAX_TEXT = 64 };
enum { MOST_RANKS = 1000000 }; /* so that the bytes of a call fit 64 bits */

struct reader {
    struct traces_recorded *out;
    const char *file;
    int64_t line, calls_capacity, comms_capacity;
    char *lost; /* what was not recorded, a list; NULL = nothing */
    int64_t lost_size, lost_capacity;
    char text[MAX_FIELDS][MAX_TEXT];
    int n_fields;
};

static const char *const others[] = {"gather", "scatter", "scan", "neighbor_gather",
                                     "neighbor_all_to_all", "put", "wait"};

const char *traces_call_name(int32_t op)
{
    return op < LW_N_OP_KINDS ? lw_op_name((enum lw_op_kind)op) : others[op - LW_N_OP_KINDS];
}

static bool is_communication(enum lw_op_kind op)
{
    return lw_op_class(op) == LW_CLASS_COLLECTIVE || lw_op_class(op) == LW_CLASS_P2P;
}

/* false: the word is not of a call. */
static bool parse_call(const char *word, int32_t *op)
{
    for (*op = 0; *op < TRACES_N_CALLS; ++*op)
        if (strcmp(word, traces_call_name(*op)) == 0)
            return *op >= LW_N_OP_KINDS || is_communication((enum lw_op_kind)*op);
    return false;
}

bool traces_recorded_is(const char *text, size_t len)
{
    return len >= sizeof MARK - 1 && memcmp(text, MARK, sizeof MARK - 1) == 0;
}

static enum lw_status bad(const struct reader *r, struct lw_err *err, const char *what, int field,
                          const char *expected)
{
    return lw_fail_at(err, LW_EFORMAT, r->file, r->line, "%s '%s': expected %s", what,
                      field < r->n_fields ? r->text[field] : "", expected);
}

static enum lw_status cut(struct reader *r, const char *p, const char *end, struct lw_err *err)
{
    r->n_fields = 0;
    for (const char *field = p; field <= end; r->n_fields++) {
        const char *comma = memchr(field, ',', (size_t)(end - field));
        size_t len = (size_t)((comma ? comma : end) - field);
        if (r->n_fields == MAX_FIELDS || len >= MAX_TEXT)
            return lw_fail_at(err, LW_EFORMAT, r->file, r->line,
                              "a line of calls has at most %d fields of fewer than %d characters",
                              MAX_FIELDS, MAX_TEXT);
        memcpy(r->text[r->n_fields], field, len);
        r->text[r->n_fields][len] = '\0';
        field = comma ? comma + 1 : end + 1;
    }
    return LW_OK;
}

static enum lw_status number(struct reader *r, int field, const char *what, int64_t least,
                             int64_t most, int64_t *out, struct lw_err *err)
{
    char expected[80], *end;

    errno = 0;
    long long v = field < r->n_fields ? strtoll(r->text[field], &end, 10) : 0;
    if (field >= r->n_fields || end == r->text[field] || *end || errno || v < least || v > most) {
        snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)least,
                 (long long)most);
        return bad(r, err, what, field, expected);
    }
    *out = v;
    return LW_OK;
}

/* A time longer than lw_ps holds: the clock jumped, or the line is damaged. */
static enum lw_status too_long(const struct reader *r, struct lw_err *err, const char *what,
                               int64_t ns)
{
    return lw_fail_at(err, LW_EFORMAT, r->file, r->line,
                      "the %s is too long: %.1f days, allowed: 106 days. A time of this line is "
                      "damaged: remove the line, or record again",
                      what, (double)ns / 86400e9);
}

static enum lw_status read_comm(struct reader *r, struct lw_err *err)
{
    struct traces_recorded *c = r->out;
    int64_t n, rank, ranks;
    char *end;

    LW_TRY(number(r, 1, "communicator", 1, INT32_MAX, &n, err));
    LW_TRY(number(r, 3, "rank", -1, MOST_RANKS, &rank, err));
    LW_TRY(number(r, 4, "ranks", -1, MOST_RANKS, &ranks, err));
    uint64_t id = strtoull(r->text[2], &end, 16);
    if (end == r->text[2] || *end)
        return bad(r, err, "id", 2, "16 hexadecimal digits");
    if (n != c->n_comms + 1)
        return bad(r, err, "communicator", 1, "the next number");
    if (rank >= ranks && ranks >= 0)
        return bad(r, err, "rank", 3, "less than the number of ranks");
    LW_ROOM(c->comms, r->comms_capacity, c->n_comms + 1, err);
    c->comms[c->n_comms++] = (struct traces_recorded_comm){id, (int32_t)rank, (int32_t)ranks};
    return LW_OK;
}

static enum lw_status read_call(struct reader *r, struct lw_err *err)
{
    struct traces_recorded *c = r->out;
    struct traces_recorded_call k = {.start_ns = -1, .end_ns = -1};
    int64_t n, peer, comm, stream;
    struct lw_err unused;

    LW_TRY(number(r, 1, "call", 1, INT64_MAX, &n, err));
    LW_TRY(number(r, 2, "time", 0, INT64_MAX, &k.entered_ns, err));
    LW_TRY(number(r, 3, "duration", 0, INT64_MAX, &k.host_ns, err));
    LW_TRY(number(r, 5, "count", 0, INT64_MAX / 8 / MOST_RANKS, &k.count, err));
    LW_TRY(number(r, 7, "peer", -1, MOST_RANKS, &peer, err));
    LW_TRY(number(r, 8, "communicator", 1, INT32_MAX, &comm, err));
    LW_TRY(number(r, 9, "stream", INT64_MIN, INT64_MAX, &stream, err));
    LW_TRY(number(r, 10, "group", 0, INT64_MAX, &k.group, err));
    if (n != c->n + 1)
        return bad(r, err, "call", 1, "the next number");
    if (comm > c->n_comms)
        return bad(r, err, "communicator", 8, "one that has a line before");
    if (!parse_call(r->text[4], &k.op))
        return bad(r, err, "op", 4, "a kind of communication, such as all_reduce");
    k.dtype_known = strcmp(r->text[6], "?") != 0;
    if (k.dtype_known && lw_dtype_parse(r->text[6], &k.dtype, &unused) != LW_OK)
        return bad(r, err, "dtype", 6, "f32, f64, f16, bf16, i64, i32, u8 or ?");
    if (k.host_ns > LW_MOST_NS)
        return too_long(r, err, "duration", k.host_ns);
    k.peer = (int32_t)peer;
    k.comm = (int32_t)comm - 1;
    LW_ROOM(c->calls, r->calls_capacity, c->n + 1, err);
    c->calls[c->n++] = k;
    return LW_OK;
}

static enum lw_status read_span(struct reader *r, struct lw_err *err)
{
    struct traces_recorded *c = r->out;
    int64_t n, start, end;

    LW_TRY(number(r, 1, "call", 1, INT64_MAX, &n, err));
    LW_TRY(number(r, 2, "start", 0, INT64_MAX, &start, err));
    LW_TRY(number(r, 3, "end", 0, INT64_MAX, &end, err));
    if (n > c->n)
        return bad(r, err, "call", 1, "one that has a line before");
    if (end < start)
        return bad(r, err, "end", 3, "no earlier than the start");
    if (end - start > LW_MOST_NS)
        return too_long(r, err, "span", end - start);
    c->calls[n - 1].start_ns = start;
    c->calls[n - 1].end_ns = end;
    return LW_OK;
}

static enum lw_status add_lost(struct reader *r, const char *word, size_t n, struct lw_err *err)
{
    static const char comma[] = ", ";
    size_t before = (size_t)r->lost_size, at = before > 0 ? before - 1 + strlen(comma) : 0;

    LW_ROOM(r->lost, r->lost_capacity, (int64_t)(at + n + 1), err);
    if (before > 0)
        memcpy(r->lost + before - 1, comma, strlen(comma));
    memcpy(r->lost + at, word, n);
    r->lost[at + n] = '\0';
    r->lost_size = (int64_t)(at + n + 1);
    return LW_OK;
}

/* "# library nccl 2.28.9": the rest of the line after the key, of "# host" the first word. Several
 * "# not recorded" become a list. */
static enum lw_status read_head(struct reader *r, const char *p, const char *end,
                                struct lw_err *err)
{
    static const struct {
        const char *key;
        size_t place; /* in struct traces_recorded */
        char stop;
    } heads[] = {{"# library ", offsetof(struct traces_recorded, library), '\n'},
                 {"# host ", offsetof(struct traces_recorded, host), ' '}};
    static const char lost[] = "# not recorded ";

    if ((size_t)(end - p) >= sizeof lost && memcmp(p, lost, strlen(lost)) == 0)
        return add_lost(r, p + strlen(lost), (size_t)(end - p) - strlen(lost), err);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        size_t n = strlen(heads[i].key), rest = (size_t)(end - p) > n ? (size_t)(end - p) - n : 0;
        if (rest == 0 || memcmp(p, heads[i].key, n) != 0)
            continue;
        const char *stop = memchr(p + n, heads[i].stop, rest);
        const char *text =
            lw_arena_strndup(&r->out->arena, p + n, stop ? (size_t)(stop - p) - n : rest);
        if (!text)
            return lw_fail_nomem(err);
        *(const char **)(void *)((char *)r->out + heads[i].place) = text;
    }
    return LW_OK;
}

static enum lw_status read_line(struct reader *r, const char *p, const char *end,
                                struct lw_err *err)
{
    if (p == end || *p == '#')
        return read_head(r, p, end, err);
    LW_TRY(cut(r, p, end, err));
    if (strcmp(r->text[0], "call") == 0)
        return read_call(r, err);
    if (strcmp(r->text[0], "span") == 0)
        return read_span(r, err);
    if (strcmp(r->text[0], "comm") == 0)
        return read_comm(r, err);
    return bad(r, err, "line", 0, "comm, call or span");
}

static enum lw_status own(struct reader *r, struct lw_err *err)
{
    struct traces_recorded *c = r->out;
    void *const blocks[] = {c->calls, c->comms, r->lost};
    enum lw_status s = LW_OK;

    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (!blocks[i] || (s == LW_OK && lw_arena_adopt(&c->arena, blocks[i]) == 0))
            continue;
        lw_free(blocks[i]);
        s = lw_fail_nomem(err);
    }
    c->lost = r->lost ? r->lost : "";
    return s;
}

enum lw_status traces_recorded_read(const struct lw_input *in, struct traces_recorded *out,
                                 struct lw_err *err)
{
    struct traces_recorded c = {.file = in->name, .library = "", .host = ""};
    struct reader r = {.out = &c, .file = in->name};
    const char *p = in->text, *stop = in->text + in->len, *end;
    enum lw_status status = LW_OK;

    if (!traces_recorded_is(in->text, in->len))
        return lw_fail(err, LW_EFORMAT, "%s: not a recording of calls ('%s' in the first line)",
                       in->name, MARK);
    for (; status == LW_OK && (end = memchr(p, '\n', (size_t)(stop - p))); p = end + 1) {
        r.line++;
        status = read_line(&r, p, end, err);
    }
    enum lw_status owned = own(&r, status == LW_OK ? err : NULL);
    if (status != LW_OK || owned != LW_OK) {
        lw_arena_free(&c.arena);
        return status != LW_OK ? status : owned;
    }
    *out = c;
    return LW_OK;
}

LW_FREE_BY_ARENA(traces_recorded_free, struct traces_recorded)

int64_t traces_recorded_bytes(const struct traces_recorded *c,
                              const struct traces_recorded_call *call)
{
    int32_t n = c->comms[call->comm].n_ranks;
    bool each = call->op == LW_OP_ALL_GATHER || call->op == LW_OP_REDUCE_SCATTER ||
                call->op == LW_OP_ALL_TO_ALL || call->op == TRACES_CALL_GATHER ||
                call->op == TRACES_CALL_SCATTER;

    if (!call->dtype_known || (each && n < 1))
        return -1;
    return call->count * lw_dtype_size(call->dtype) * (each ? n : 1);
}
