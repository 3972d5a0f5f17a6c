/* The hosts of the progress check (shared/check/plan_check_progress.c): the order in which each
 * rank's host issues its ops may not let it wait for a rank that waits for it. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "shared/plan/plan_builder.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/plans/tiny_workload.h"
#include "tests/lib/prng.h"

enum { QUEUE = 4, MESSAGES = 20, MOST = 2 * MESSAGES };

/* What one of two ranks issues. Class c has stream 1 + c; kernels (class -1) have stream 0. */
struct list {
    struct {
        enum lw_op_kind kind;
        int32_t class, dep;
    } ops[MOST];
    int32_t n, issued;
    bool entered[MOST], ended[MOST];
};

static void append(struct list *l, enum lw_op_kind kind, int32_t class, int32_t dep)
{
    l->ops[l->n].kind = kind;
    l->ops[l->n].class = class;
    l->ops[l->n++].dep = dep;
}

static struct lw_plan plan_of(const struct list two[2])
{
    struct lw_builder *b = lw_builder_new("hosts", 2);
    struct lw_plan p;
    struct lw_err err = {0};

    for (int32_t r = 0; r < 2; r++)
        lw_builder_role(b, &(struct lw_role){.name = r ? "r1" : "r0"});
    for (int32_t r = 0; r < 2; r++)
        lw_builder_rank(b, r, r, r, 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    for (int32_t c = 0; c < 2; c++) {
        int32_t stream = lw_builder_stream(b, c ? "y" : "x", LW_STREAM_COMM, 1);
        lw_builder_comm(b, c ? "y" : "x", LW_COMM_WORLD, LW_REDUCER_AUTO, stream);
        lw_builder_group(b, c, (int32_t[]){0, 1}, 2);
    }
    lw_builder_variant(b, "only", "", true);
    lw_builder_pass(b, 0);
    for (int32_t r = 0, first = 0; r < 2; r++) {
        lw_builder_program(b, 0, r);
        for (int32_t i = 0; i < two[r].n; i++) {
            struct lw_op o = lw_builder_blank(two[r].ops[i].kind, 1 + two[r].ops[i].class);
            int32_t dep = first + two[r].ops[i].dep;
            o.comm = two[r].ops[i].class;
            o.bytes = 8;
            o.peer = o.comm < 0 ? -1 : 1 - r;
            lw_builder_op(b, &o, &dep, two[r].ops[i].dep >= 0);
        }
        first = two[r].n;
    }
    assert_ok(lw_builder_finish(b, &p, &err), err);
    return p;
}

/* Both receive on one stream and send on the other. A host that lists five receives first waits for
 * room in their stream before it has issued a send. */
TEST(a_host_that_issues_its_sends_too_late_is_named)
{
    for (int late = 0; late < 2; late++) {
        struct list two[2] = {0};
        struct lw_err err = {0};
        for (int32_t r = 0; r < 2; r++)
            for (int32_t i = 0; i < 2 * (QUEUE + 1); i++) {
                bool sends = late ? i > QUEUE : i % 2 == 1;
                append(&two[r], sends ? LW_OP_SEND : LW_OP_RECV, sends ? 1 - r : r, -1);
            }
        struct lw_plan p = plan_of(two);
        assert_int_equal(lw_plan_check(&p, &err), late ? LW_EPLAN : LW_OK);
        if (late)
            assert_string_equal(
                err.msg,
                "deadlock of hosts that issue in the order of the list: on rank 0, op 0 (recv) of "
                "'only' for role 'r0' waits for op 15 (send) of 'only' for role 'r1' on rank 1, "
                "that for op 14 (recv) of 'only' for role 'r1' on rank 1, that for op 10 (recv) of "
                "'only' for role 'r1' on rank 1, that for op 5 (send) of 'only' for role 'r0' on "
                "rank 0, that for op 4 (recv) of 'only' for role 'r0' on rank 0, that for the "
                "first");
        lw_plan_free(&p);
    }
}

/* --- against the definition ------------------------------------------------------------------- */

static bool earlier_ended(const struct list *l, int32_t op)
{
    bool ended = true;

    for (int32_t i = 0; i < op; i++)
        ended = ended && (l->ops[i].class != l->ops[op].class || l->ended[i]);
    return ended;
}

/* The partner, the other rank's op of the same number in the class, has entered. */
static bool is_met(const struct list *l, const struct list *other, int32_t op)
{
    int32_t number = 0, i = -1;

    if (l->ops[op].class < 0)
        return true;
    for (int32_t k = 0; k <= op; k++)
        number += l->ops[k].class == l->ops[op].class;
    while (number > 0)
        number -= other->ops[++i].class == l->ops[op].class;
    return other->entered[i];
}

static bool has_room(const struct list *l)
{
    int32_t class = l->ops[l->issued].class, n = 0;

    for (int32_t i = 0; i < l->issued; i++)
        n += l->ops[i].class == class && !l->ended[i];
    return n < (class < 0 ? 1 : QUEUE);
}

static bool try_op(struct list *l, const struct list *other, int32_t op)
{
    int32_t dep = l->ops[op].dep;
    bool enters = !l->entered[op] && earlier_ended(l, op) && (dep < 0 || l->ended[dep]);

    l->entered[op] |= enters;
    bool leaves = l->entered[op] && !l->ended[op] && is_met(l, other, op);
    l->ended[op] |= leaves;
    return enters || leaves;
}

/* Everything is tried until nothing changes. */
static bool all_end(const struct list lists[2], bool hosts)
{
    struct list two[2] = {lists[0], lists[1]};
    bool moved = true, end = true;

    for (int32_t r = 0; r < 2; r++)
        two[r].issued = hosts ? 0 : two[r].n;
    while (moved) {
        moved = false;
        for (int32_t r = 0; r < 2; r++) {
            struct list *l = &two[r];
            if (l->issued < l->n && has_room(l)) {
                l->issued++;
                moved = true;
            }
            for (int32_t i = 0; i < l->issued; i++)
                moved = try_op(l, &two[1 - r], i) || moved;
        }
    }
    for (int32_t r = 0; r < 2; r++)
        for (int32_t i = 0; i < two[r].n; i++)
            end = end && two[r].ended[i];
    return end;
}

static void random_lists(struct prng *r, struct list two[2])
{
    int32_t from[2][MESSAGES], n[2] = {0};

    for (int32_t m = 0; m < MESSAGES; m++) {
        int32_t class = (int32_t)prng_in(r, 0, 1);
        from[class][n[class]++] = (int32_t)prng_in(r, 0, 1);
    }
    for (int32_t rank = 0; rank < 2; rank++) {
        struct list *l = &two[rank];
        int32_t at[2] = {0};
        *l = (struct list){0};
        while (at[0] < n[0] || at[1] < n[1]) {
            int32_t class = (int32_t)prng_in(r, -1, 1);
            int32_t dep = prng_in(r, 0, 3) ? -1 : (int32_t)prng_in(r, -1, l->n - 1);
            if (class < 0 ? l->n >= MOST - MESSAGES : at[class] == n[class])
                continue;
            enum lw_op_kind end = class < 0                              ? LW_OP_KERNEL
                                  : from[class][at[class]++] == rank ? LW_OP_SEND
                                                                     : LW_OP_RECV;
            append(l, end, class, dep);
        }
    }
}

TEST(random_lists_are_judged_as_the_definition_says)
{
    struct prng r = prng_start("hosts");
    int32_t passed = 0, of_hosts = 0, of_streams = 0;

    for (int i = 0; i < 3000; i++) {
        struct list two[2];
        struct lw_err err = {0};
        random_lists(&r, two);
        struct lw_plan p = plan_of(two);
        bool checks = lw_plan_check(&p, &err) == LW_OK;
        bool hosts = strncmp(err.msg, "deadlock of hosts", 17) == 0;
        if (checks != all_end(two, true) || (!checks && hosts != all_end(two, false)))
            fail_msg("case %d: %s", i, checks ? "found in order" : err.msg);
        passed += checks;
        of_hosts += hosts;
        of_streams += !checks && !hosts;
        lw_plan_free(&p);
    }
    printf("%d pass, %d deadlocks of hosts, %d of streams\n", passed, of_hosts, of_streams);
    assert_true(passed > 100 && of_hosts > 100 && of_streams > 100); /* each is frequent */
}

/* --- damaged plans ---------------------------------------------------------------------------- */

static bool depends(const struct lw_plan *p, int32_t op, int32_t on)
{
    bool found = false;

    for (int32_t d = 0; d < p->ops[op].n_deps; d++)
        found = found || p->deps[p->ops[op].first_dep + d] == on;
    return found;
}

/* Ops i and i + 1 change places in the list, and nothing else changes. */
static void swap(struct lw_plan *p, int32_t i)
{
    struct lw_op op = p->ops[i];

    p->ops[i] = p->ops[i + 1];
    p->ops[i + 1] = op;
    for (int32_t d = 0; d < p->n_deps; d++)
        p->deps[d] = p->deps[d] == i ? i + 1 : p->deps[d] == i + 1 ? i : p->deps[d];
}

/* The op is issued as late as its stream and those that wait for it allow. */
static void issue_late(struct lw_plan *p, int32_t op, int32_t end)
{
    while (op + 1 < end && p->ops[op + 1].stream != p->ops[op].stream && !depends(p, op + 1, op))
        swap(p, op++);
}

TEST(a_schedule_whose_sends_are_issued_last_is_named)
{
    static const struct {
        const char *schedule, *zero;
        int32_t role;
    } cases[] = {{"1f1b", "0", 0}, {"gpipe", "1", 0}, {"1f1b", "3", 0}, {"gpipe", "3", 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = lw_strategy_default();
        struct lw_err err = {0};
        struct lw_plan p;
        struct tiny t;
        const char *given[][2] = {{"dp", "2"}, {"pp", "2"}, {"micro-batches", "8"},
                                  {"schedule", cases[i].schedule}, {"zero", cases[i].zero}};
        tiny_init(&t);
        for (int32_t m = 0; m < t.w.n_modules; m++)
            t.modules[m].output_bytes = 64;
        for (size_t k = 0; k < sizeof given / sizeof *given; k++)
            assert_ok(lw_strategy_set(&s, given[k][0], given[k][1], &err), err);
        assert_ok(lw_plan_build(&t.w, &s, NULL, &p, &err), err);
        assert_ok(lw_plan_check(&p, &err), err);
        struct lw_program g = lw_plan_program(&p, lw_plan_variant_of_pass(&p, 0), cases[i].role);
        for (int32_t op = g.first_op + g.n_ops; op-- > g.first_op;)
            if (p.ops[op].kind == LW_OP_SEND)
                issue_late(&p, op, g.first_op + g.n_ops);
        if (lw_plan_check(&p, &err) != LW_EPLAN || strncmp(err.msg, "deadlock of hosts", 17) != 0)
            fail_msg("%s, ZeRO-%s: %s", cases[i].schedule, cases[i].zero, err.msg);
        lw_plan_free(&p);
    }
}
