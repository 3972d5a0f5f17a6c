/* What NVTX ranges mean.
 *
 * torch.autograd.profiler.emit_nvtx pushes a range for each op, "aten::mm, seq = 12, op_id = 40,
 * sizes = [[4, 8]]" (torch/csrc/profiler/standalone/nvtx_observer.cpp): its name is what is before
 * the first of these, and seq its autograd number. NCCL's domain has a range for each call,
 * "ncclAllReduce", whose payload holds "Message size [bytes]" and, when a communicator is made,
 * "No. of ranks" and "Rank" (NCCL src/collectives.cc and src/init.cc). A collective's bytes are as
 * NCCL counts them, of one rank's contribution; of a reduce-scatter, where it counts the result,
 * they are unknown.
 *
 * Iterations: the profiler has no names for them. A family is the ranges of one thread whose names
 * are equal once their digits are left out. It is taken for the iterations if a word of its name
 * says so (the table below) and none says that it is a part of one, if there are two or more of it
 * (one, where a number follows) and no two overlap; of several the one that covers most time. */
#include "traces/nsys/nsys_nvtx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

/* ---- ranges ---- */

static const char *find(const char *text, int len, const char *mark)
{
    return memmem(text, (size_t)len, mark, strlen(mark));
}

/* The whole number after "mark": of a payload, which may quote it; -1 = none. */
static int64_t number_after(const char *text, int len, const char *mark)
{
    const char *p = len > 0 ? find(text, len, mark) : NULL, *end = text + len;
    int64_t n = 0;

    if (!p)
        return -1;
    for (p += strlen(mark); p < end && strchr("\" :=", *p) && *p; p++)
        ;
    if (p >= end || !isdigit((unsigned char)*p))
        return -1;
    for (; p < end && isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
            return -1;
    return n;
}

static const struct {
    const char *call, *name;
} nccl_calls[] = {
    {"ncclAllReduce", "nccl:all_reduce"},         {"ncclReduceScatter", "nccl:reduce_scatter"},
    {"ncclAllGather", "nccl:all_gather"},         {"ncclBroadcast", "nccl:broadcast"},
    {"ncclBcast", "nccl:broadcast"},              {"ncclReduce", "nccl:reduce"},
    {"ncclSend", "nccl:send"},                    {"ncclRecv", "nccl:recv"},
    {"ncclAlltoAll", "nccl:all_to_all"},          {"ncclAllToAll", "nccl:all_to_all"},
    {"ncclGather", "nccl:gather"},                {"ncclScatter", "nccl:scatter"},
};

static const char *nccl_name(const char *text, int len)
{
    for (size_t i = 0; i < sizeof nccl_calls / sizeof *nccl_calls; i++)
        if ((int)strlen(nccl_calls[i].call) == len && memcmp(text, nccl_calls[i].call,
                                                             (size_t)len) == 0)
            return nccl_calls[i].name;
    return NULL;
}

static void read_communicator(struct lw_trace *t, const struct nsys_range *range)
{
    int64_t n = number_after(range->json, range->json_len, "No. of ranks");
    int64_t rank = number_after(range->json, range->json_len, "\"Rank\"");

    if (n <= 0 || n > INT32_MAX || n <= t->world_size)
        return;
    t->world_size = (int32_t)n; /* the largest is the world's */
    t->rank = rank >= 0 && rank < n ? (int32_t)rank : -1;
}

static bool is_op(const char *text, int len)
{
    static const char *const prefixes[] = {"aten::", "torch::", "autograd::", "c10d::"};

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (len >= (int)strlen(prefixes[i]) &&
            memcmp(text, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

enum lw_status nsys_range_read(struct lw_trace *t, const struct nsys_range *range,
                               struct lw_row *row, struct lw_row_detail *detail, bool *has_detail,
                               struct lw_err *err)
{
    static const char *const ends[] = {", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "};
    const char *text = range->text, *name = range->nccl ? nccl_name(text, range->len) : NULL;
    int len = range->len;

    row->class = LW_ROW_USER;
    row->link = -1;
    *has_detail = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *cut = find(text, len, ends[i]);
        if (!cut)
            continue;
        if (i == 0)
            row->link = number_after(text, range->len, ends[i]);
        len = (int)(cut - text);
        row->class = LW_ROW_HOST;
    }
    if (name || is_op(text, len))
        row->class = LW_ROW_HOST;
    if (name) {
        int64_t bytes = number_after(range->json, range->json_len, "essage size [bytes]");
        /* of a reduce-scatter it is the result's, and the group's size is not in the range */
        detail->message_bytes = bytes > 0 && strcmp(name, "nccl:reduce_scatter") ? bytes : 0;
        *has_detail = true;
        text = name;
        len = (int)strlen(name);
    }
    if (range->nccl)
        read_communicator(t, range);
    row->name = traces_strings_add(&t->strings, text, (size_t)len);
    return row->name >= 0 ? LW_OK : lw_fail_nomem(err);
}

/* ---- iterations ---- */

static bool word_is(const char *word, size_t len, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == len && strncasecmp(*list, word, len) == 0)
            return true;
    return false;
}

static bool names_iteration(const char *name)
{
    static const char *const yes[] = {"iteration", "iter", "step", "batch", "train",
                                      "ProfilerStep", "TrainStep", "trainstep", NULL};
    static const char *const no[] = {"optimizer", "optim", "opt", "scheduler", "lr", "forward",
                                     "backward", "fwd", "bwd", "micro", "microbatch", "loss",
                                     "zero", "grad", "data", "load", "loader", "dataloader", "eval",
                                     "norm", "epoch", NULL};
    bool found = false;

    for (const char *p = name; *p;) {
        size_t len = 0;
        while (isalpha((unsigned char)p[len]))
            len++;
        if (word_is(p, len, no))
            return false;
        found |= word_is(p, len, yes);
        p += len + (p[len] != '\0' && len == 0);
    }
    return found;
}

/* Equal once digits are left out. */
static int compare_families(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (isdigit((unsigned char)*a))
            a++;
        while (isdigit((unsigned char)*b))
            b++;
        if (*a != *b || !*a)
            return (unsigned char)*a - (unsigned char)*b;
    }
}

struct candidate {
    int32_t track;
    int64_t row, name; /* name: the string's number */
    const char *text;
};

static int by_family(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    int names = a->track != b->track ? 0 : compare_families(a->text, b->text);

    return a->track != b->track ? LW_ORDER(a->track, b->track)
           : names != 0         ? names
                                : LW_ORDER(a->row, b->row);
}

static bool same_family(const struct candidate *a, const struct candidate *b)
{
    return a->track == b->track && compare_families(a->text, b->text) == 0;
}

/* How long the family's ranges last; -1 = they are no iterations. */
static int64_t family_ns(const struct lw_trace *t, const struct candidate *v, int64_t n)
{
    int64_t sum = 0;

    if (n < 2 && !strpbrk(v[0].text, "0123456789"))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && t->start_ns[v[i].row] < lw_trace_end_ns(t, v[i - 1].row))
            return -1;
        sum += t->dur_ns[v[i].row];
    }
    return sum;
}

static enum lw_status number_names(struct lw_trace *t, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    bool *seen = lw_arena_alloc(&scratch, t->strings.n, sizeof *seen), repeats = false;

    if (!seen)
        return lw_fail_nomem(err);
    for (int64_t k = 0; k < t->n_steps; k++) {
        repeats |= seen[t->name[t->step_rows[k]]];
        seen[t->name[t->step_rows[k]]] = true;
    }
    lw_arena_free(&scratch);
    for (int64_t k = 0; repeats && k < t->n_steps; k++) {
        char text[256];
        int len = snprintf(text, sizeof text, "%.200s #%lld",
                           lw_trace_name(t, t->step_rows[k]), (long long)k);
        int32_t name = traces_strings_add(&t->strings, text, (size_t)len);
        if (name < 0)
            return lw_fail_nomem(err);
        t->name[t->step_rows[k]] = name;
    }
    return LW_OK;
}

static enum lw_status collect(const struct lw_trace *t, struct candidate **out, int64_t *n,
                              struct lw_err *err)
{
    int8_t *says; /* by name: 0 not asked yet, 1 yes, -1 no */
    int64_t count = 0;

    LW_NEW(says, t->strings.n + 1, err);
    for (int64_t i = 0; i < t->n; i++) {
        if (t->class[i] != LW_ROW_USER)
            continue;
        int8_t *s = &says[t->name[i]];
        if (*s == 0)
            *s = names_iteration(lw_trace_name(t, i)) ? 1 : -1;
        count += *s == 1;
    }
    *out = lw_calloc((size_t)count + 1, sizeof **out);
    *n = 0;
    for (int64_t i = 0; *out && i < t->n; i++)
        if (t->class[i] == LW_ROW_USER && says[t->name[i]] == 1)
            (*out)[(*n)++] = (struct candidate){t->track[i], i, t->name[i], lw_trace_name(t, i)};
    lw_free(says);
    return *out ? LW_OK : lw_fail_nomem(err);
}

enum lw_status nsys_steps_find(struct lw_trace *t, struct lw_err *err)
{
    struct candidate *v;
    int64_t n, best = -1, best_n = 0, best_ns = -1;

    LW_TRY(collect(t, &v, &n, err));
    lw_sort(v, n, by_family);
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && same_family(&v[i], &v[next]); next++)
            ;
        int64_t ns = family_ns(t, v + i, next - i);
        if (ns > best_ns) {
            best = i;
            best_n = next - i;
            best_ns = ns;
        }
    }
    enum lw_status status = LW_OK;
    if (best >= 0) {
        t->step_rows = lw_arena_alloc(&t->arena, best_n, sizeof *t->step_rows);
        status = t->step_rows ? LW_OK : lw_fail_nomem(err);
        for (int64_t k = 0; status == LW_OK && k < best_n; k++)
            t->step_rows[t->n_steps++] = v[best + k].row;
        t->steps_by = "NVTX ranges";
    }
    lw_free(v);
    return status == LW_OK ? number_names(t, err) : status;
}
