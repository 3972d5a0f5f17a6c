/* Dumps of PyTorch's Flight Recorder (torch/csrc/distributed/c10d/FlightRecorder.hpp; versions 2.x,
 * recorded with torch 2.11 over gloo): JSON, or the pickle that torch writes on a timeout, read as
 * the same JSON. Before torch 2.4 an entry has "seq_id" and "pg_id" alone, in torch 2.2 the
 * entries are all that is dumped. Kept of an entry: group, sequence number, operation, sizes and
 * types of the first input and output, state. Stacks, threads and times are passed over. */
#include <string.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "traces/collectives/coll_log.h"
#include "traces/collectives/pickle.h"

enum { LOOKED_AT = 1 << 16 };

static bool holds(const struct lw_input *in, const char *word)
{
    size_t n = in->len < LOOKED_AT ? in->len : LOOKED_AT;

    return memmem(in->text, n, word, strlen(word)) != NULL;
}

bool coll_log_is_recorder(const struct lw_input *in)
{
    if (pickle_is(in->text, in->len))
        return holds(in, "pg_config") || holds(in, "pg_status") || holds(in, "profiling_name") ||
               holds(in, "collective_seq_id");
    return in->len > 0 && memchr("{[ \n\t", in->text[0], 5) && !holds(in, "\"traceEvents\"") &&
           (holds(in, "\"pg_status\"") || holds(in, "\"profiling_name\"") ||
            holds(in, "\"collective_seq_id\""));
}

struct reader {
    struct lw_json *j;
    struct coll_log *l;
    struct lw_err *err;
    bool nomem, has_entries;
};

static const char *keep(struct reader *r, const char *text)
{
    char *copy = lw_arena_strdup(&r->l->arena, text);

    r->nomem |= !copy;
    return copy ? copy : "";
}

/* The elements of the first of several shapes; -1 = none, or beyond int64. */
static int64_t read_numel(struct lw_json *j)
{
    int64_t numel = -1;
    bool first = true;

    if (lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY))
        return -1;
    while (lw_json_next(j)) {
        if (!first || lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY))
            continue;
        first = false;
        numel = 1;
        while (lw_json_next(j)) {
            int64_t n = lw_json_int64(j);
            if (n < 0 || numel < 0 || __builtin_mul_overflow(numel, n, &numel))
                numel = -1;
        }
    }
    return numel;
}

static const char *read_first(struct reader *r)
{
    const char *text = "";

    if (lw_json_type(r->j) != LW_JSON_ARRAY || !lw_json_enter(r->j, LW_JSON_ARRAY))
        return "";
    for (bool first = true; lw_json_next(r->j); first = false)
        if (first && lw_json_type(r->j) == LW_JSON_STRING)
            text = keep(r, lw_json_string(r->j, NULL));
    return text;
}

/* ["0", "default_pg"]: both, since numbers of groups are given again after one is destroyed. */
static const char *read_group(struct reader *r)
{
    char text[200] = "";
    size_t len = 0;

    if (lw_json_type(r->j) == LW_JSON_STRING)
        return keep(r, lw_json_string(r->j, NULL));
    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return "";
    while (lw_json_next(r->j)) {
        const char *part = lw_json_string(r->j, NULL);
        int n = snprintf(text + len, sizeof text - len, len ? " (%.80s)" : "%.80s", part);
        len += n > 0 && (size_t)n < sizeof text - len ? (size_t)n : 0;
    }
    return keep(r, text);
}

/* The number of a group, where that is all that is said of it. */
static const char *read_number(struct reader *r)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)lw_json_int64(r->j));
    return keep(r, text);
}

static enum lw_status read_entry(struct reader *r)
{
    struct coll_source *s = &r->l->sources[0];
    struct coll_call c = {.op = "", .dtype = "", .group = "", .state = "", .seq = -1, .numel = -1,
                          .out_numel = -1, .has_state = true};
    int64_t p2p_seq = -1;
    struct lw_json *j = r->j;
    bool retired = false;

    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return LW_OK;
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "profiling_name"))
            c.op = keep(r, lw_json_string(j, NULL));
        else if (lw_json_key_is(j, "process_group"))
            c.group = read_group(r);
        else if (lw_json_key_is(j, "pg_id") && !*c.group)
            c.group = read_number(r);
        else if (lw_json_key_is(j, "collective_seq_id") || lw_json_key_is(j, "seq_id"))
            c.seq = lw_json_int64(j);
        else if (lw_json_key_is(j, "p2p_seq_id"))
            p2p_seq = lw_json_int64(j);
        else if (lw_json_key_is(j, "is_p2p"))
            c.p2p = lw_json_bool(j);
        else if (lw_json_key_is(j, "input_sizes"))
            c.numel = read_numel(j);
        else if (lw_json_key_is(j, "output_sizes"))
            c.out_numel = read_numel(j);
        else if (lw_json_key_is(j, "input_dtypes"))
            c.dtype = read_first(r);
        else if (lw_json_key_is(j, "state"))
            c.state = keep(r, lw_json_string(j, NULL));
        else if (lw_json_key_is(j, "retired") && lw_json_type(j) == LW_JSON_BOOL)
            retired = lw_json_bool(j);
    }
    c.seq = c.p2p ? p2p_seq : c.seq;
    c.done = retired || strcmp(c.state, "completed") == 0;
    if (!lw_json_failed(j) && !*c.op)
        lw_json_fail(j, "an entry needs \"profiling_name\"");
    LW_ROOM(s->calls, s->cap, s->n + 1, r->err);
    s->calls[s->n++] = c;
    return r->nomem ? lw_fail_nomem(r->err) : LW_OK;
}

static enum lw_status read_entries(struct reader *r)
{
    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return LW_OK;
    r->has_entries = true;
    while (lw_json_next(r->j))
        LW_TRY(read_entry(r));
    return LW_OK;
}

static enum lw_status read_root(struct reader *r)
{
    struct lw_json *j = r->j;

    if (lw_json_type(j) == LW_JSON_ARRAY)
        return read_entries(r);
    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return LW_OK;
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "rank") && lw_json_type(j) == LW_JSON_NUMBER)
            r->l->sources[0].rank = (int32_t)lw_json_int64(j);
        if (lw_json_key_is(j, "entries"))
            LW_TRY(read_entries(r));
    }
    return LW_OK;
}

static enum lw_status read_json(const char *name, const char *text, size_t len,
                                struct coll_log *l, struct lw_err *err)
{
    struct reader r = {.l = l, .err = err};

    LW_TRY(lw_json_open(name, text, len, &r.j, err));
    enum lw_status status = read_root(&r);
    if (status == LW_OK)
        status = lw_json_done(r.j, err);
    lw_json_close(r.j);
    if (status == LW_OK && !r.has_entries)
        status = lw_fail_at(err, LW_EFORMAT, name, 0,
                            "no \"entries\": not a dump of the Flight Recorder (set "
                            "TORCH_FR_BUFFER_SIZE, and dump after the collectives ran)");
    return status;
}

/* torch names its dumps PREFIX and the rank. */
static int32_t rank_of_name(const char *name)
{
    const char *p = name + strlen(name), *dot = strrchr(name, '.');
    int64_t rank = 0, scale = 1;

    p = dot && !strchr(dot, '/') ? dot : p;
    if (p == name || p[-1] < '0' || p[-1] > '9')
        return -1;
    for (; p > name && p[-1] >= '0' && p[-1] <= '9' && scale < 1000000000; p--, scale *= 10)
        rank += (p[-1] - '0') * scale;
    return rank <= INT32_MAX ? (int32_t)rank : -1;
}

enum lw_status coll_log_read_recorder(const struct lw_input *in, struct coll_log *out,
                                      struct lw_err *err)
{
    struct coll_log l = {.format = "flight-recorder", .n = 1};
    struct lw_arena scratch = {0};
    const char *text = in->text;
    size_t len = in->len;
    enum lw_status status = LW_OK;

    l.sources = lw_arena_alloc(&l.arena, 1, sizeof *l.sources);
    if (!l.sources)
        return lw_fail_nomem(err);
    l.sources[0] = (struct coll_source){.name = in->name, .rank = rank_of_name(in->name)};
    if (pickle_is(in->text, in->len)) {
        char *json;
        status = pickle_to_json(in->name, in->text, in->len, &scratch, &json, &len, err);
        text = json;
    }
    if (status == LW_OK)
        status = read_json(in->name, text, len, &l, err);
    lw_arena_free(&scratch);
    LW_GIVE(status, out, l, coll_log_free(&l));
}
