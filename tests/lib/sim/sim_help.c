/* Clusters and plans that the simulator's tests share. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "sim/bench/bench_plan.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/sim/timeline_check.h"

struct lw_figure given(double value)
{
    return (struct lw_figure){value, "test"};
}

void make_cluster(struct lw_cluster *c, int32_t n, double bytes_per_s, lw_ps latency)
{
    *c = (struct lw_cluster){.name = "test", .n_nodes = 1, .devices_per_node = n,
                             .library = "lapwing threads", /* rings */
                             .library_version = "", .about = ""};
    c->links = lw_arena_alloc(&c->arena, 2, sizeof *c->links);
    c->exceptions = lw_arena_alloc(&c->arena, 16, sizeof *c->exceptions);
    c->tables = lw_arena_alloc(&c->arena, 16, sizeof *c->tables);
    assert_non_null(c->tables);
    c->n_links = 1;
    c->links[0] = (struct lw_link){.name = "link", .level = LW_LINK_INTRA,
                                   .bytes_per_s = given(bytes_per_s),
                                   .latency_ps = given((double)latency)};
}

void give_channels(struct lw_cluster *c, double n_sms, double each)
{
    c->library = "nccl";
    c->nccl.compute_capability = given(90);
    c->nccl.multicast = given(1);
    c->links[0].name = "NVLink";
    c->links[0].bytes_per_s = given(20.6e9);
    c->links[0].n_links = given(18);
    c->device.n_sms = given(n_sms);
    c->interference.sms_per_channel = given(each);
}

void add_exception(struct lw_cluster *c, struct lw_exception x)
{
    c->exceptions[c->n_exceptions++] = x;
}

void add_table(struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks, int32_t n_in_flight,
               int32_t n_rows, const int64_t *bytes, const lw_ps *time_ps)
{
    c->tables[c->n_tables++] =
        (struct lw_cost_table){.op = op, .n_ranks = n_ranks, .n_nodes = 1,
                               .n_in_flight = n_in_flight, .n_rows = n_rows, .bytes = bytes,
                               .time_ps = time_ps, .source = "test table"};
}

struct lw_builder *begin_plan(const char *name, int32_t n_ranks)
{
    struct lw_builder *b = lw_builder_new(name, n_ranks);
    struct lw_role role = {.name = "all"};
    int32_t members[4096];

    assert_non_null(b);
    assert_true(n_ranks <= 4096);
    lw_builder_role(b, &role);
    for (int32_t r = 0; r < n_ranks; r++) {
        lw_builder_rank(b, r, 0, r, 0, 0);
        members[r] = r;
    }
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    lw_builder_comm(b, "data", LW_COMM_DATA, LW_REDUCER_AUTO, 1);
    lw_builder_group(b, 0, members, n_ranks);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    return b;
}

void finish_plan(struct lw_builder *b, struct lw_plan *plan)
{
    struct lw_err err = {0};

    lw_builder_pass(b, 0);
    if (lw_builder_finish(b, plan, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

static int32_t add(struct lw_builder *b, const struct lw_op *op, int32_t dep)
{
    return lw_builder_op(b, op, &dep, dep >= 0);
}

int32_t add_class(struct lw_builder *b, int32_t n_ranks, enum lw_reducer_kind reducer)
{
    int32_t members[64], comm = lw_builder_comm(b, "by name", LW_COMM_DATA, reducer, 1);

    assert_true(n_ranks <= 64);
    for (int32_t r = 0; r < n_ranks; r++)
        members[r] = r;
    lw_builder_group(b, comm, members, n_ranks);
    return comm;
}

int32_t add_work(struct lw_builder *b, enum lw_op_kind kind, int32_t stream, lw_ps work,
                 int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.work_ps = work;
    return add(b, &op, dep);
}

int32_t add_collective(struct lw_builder *b, enum lw_op_kind kind, int32_t comm, int32_t stream,
                       int64_t bytes, int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.comm = comm;
    op.bytes = bytes;
    return add(b, &op, dep);
}

int32_t add_message(struct lw_builder *b, enum lw_op_kind kind, int32_t comm, int32_t stream,
                    int64_t bytes, int32_t peer, int32_t call, int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.comm = comm;
    op.bytes = bytes;
    op.peer = peer;
    op.call = call;
    return add(b, &op, dep);
}

struct lw_builder *begin_roles(int32_t n_ranks)
{
    struct lw_builder *b = lw_builder_new("roles", n_ranks);
    struct lw_role role = {.name = "r"};
    int32_t members[64];

    assert_non_null(b);
    assert_true(n_ranks <= 64);
    for (int32_t r = 0; r < n_ranks; r++) {
        lw_builder_role(b, &role);
        lw_builder_rank(b, r, r, 0, r, 0);
        members[r] = r;
    }
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    lw_builder_comm(b, "world", LW_COMM_WORLD, LW_REDUCER_AUTO, 1);
    lw_builder_group(b, 0, members, n_ranks);
    lw_builder_variant(b, "steady", "", true);
    return b;
}

int32_t add_timed(struct lw_builder *b, int32_t comm, int32_t stream, int64_t bytes, lw_ps time,
                  int32_t dep)
{
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, stream);

    op.comm = comm;
    op.bytes = bytes;
    op.work_ps = time;
    return add(b, &op, dep);
}

void make_world(struct world *w, struct lw_builder *b)
{
    *w = (struct world){0};
    finish_plan(b, &w->plan);
    make_cluster(&w->c, w->plan.n_ranks, 1e9, 0);
}

void free_world(struct world *w)
{
    lw_timeline_free(&w->t);
    lw_cluster_free(&w->c);
    lw_plan_free(&w->plan);
}

void run_world(struct world *w, struct lw_sim_options o)
{
    lw_timeline_free(&w->t);
    run_both(&w->plan, &w->c, o, &w->t, &w->s);
}

struct lw_span row_of(const struct world *w, int32_t step, int32_t rank, int32_t op)
{
    for (int64_t i = 0; i < w->t.n; i++)
        if (w->t.step[i] == step && w->t.rank[i] == rank && w->t.op[i] == op)
            return lw_timeline_get(&w->t, i);
    fail_msg("no row for step %d, rank %d, op %d", step, rank, op);
    return (struct lw_span){0};
}

void expect_span(const struct world *w, int32_t rank, int32_t op, lw_ps start, lw_ps end)
{
    struct lw_span s = row_of(w, 0, rank, op);

    if (s.start != start || s.end != end)
        fail_msg("rank %d op %d: %lld..%lld ps, expected %lld..%lld", rank, op,
                 (long long)s.start, (long long)s.end, (long long)start, (long long)end);
}

/* The streams and communicators of the rows that the plan does not have yet. */
static void add_lanes(struct lw_builder *b, int32_t n_ranks, size_t n, const struct hand_op *rows)
{
    int32_t n_streams = 2, n_comms = 1, members[64];

    for (int32_t r = 0; r < n_ranks; r++)
        members[r] = r;
    for (size_t i = 0; i < n; i++) {
        for (; n_streams <= rows[i].stream; n_streams++)
            lw_builder_stream(b, "more", LW_STREAM_COMM, 1);
        if (rows[i].comm < n_comms)
            continue;
        assert_int_equal(rows[i].comm, n_comms++);
        int32_t comm = lw_builder_comm(b, "more", LW_COMM_DATA, LW_REDUCER_AUTO, rows[i].stream);
        lw_builder_group(b, comm, members, n_ranks);
    }
}

static void add_row(struct lw_builder *b, const struct hand_op *x)
{
    struct lw_op op = lw_builder_blank(x->kind, x->stream);
    enum lw_op_class k = lw_op_class(x->kind);

    op.bytes = k == LW_CLASS_COMPUTE ? 0 : x->bytes;
    op.work_ps = x->us * LW_PS_PER_US;
    if (k == LW_CLASS_COLLECTIVE || k == LW_CLASS_P2P)
        op.comm = x->comm;
    if (k == LW_CLASS_P2P)
        op.peer = x->peer;
    if (x->call > 0)
        op.call = x->call - 1;
    if (k == LW_CLASS_COMPUTE && x->bytes > 0)
        op.work =
            lw_builder_work(b, &(struct lw_work){.ps = op.work_ps, .flops = -1, .bytes = x->bytes});
    add(b, &op, x->after - 1);
}

void make_hand_of(struct world *w, int32_t n_ranks, size_t n, const struct hand_op *rows)
{
    bool roles = rows[0].rank != EVERY;
    struct lw_builder *b = roles ? begin_roles(n_ranks) : begin_plan("p", n_ranks);
    int32_t rank = EVERY;

    assert_true(n_ranks <= 64);
    add_lanes(b, n_ranks, n, rows);
    for (size_t i = 0; i < n; i++) {
        assert_true(rows[i].rank >= rank && (rows[i].rank == EVERY) == !roles);
        while (rank < rows[i].rank)
            lw_builder_program(b, 0, ++rank);
        add_row(b, &rows[i]);
    }
    while (roles && rank + 1 < n_ranks)
        lw_builder_program(b, 0, ++rank);
    make_world(w, b);
}

void run_hand_of(struct world *w, size_t n, const struct hand_op *rows)
{
    run_world(w, lw_sim_options_default());
    for (size_t i = 0; i < n; i++)
        for (int32_t r = 0; rows[i].end > 0 && r < w->plan.n_ranks; r++)
            if (rows[i].rank == r || rows[i].rank == EVERY)
                expect_span(w, r, (int32_t)i, rows[i].start * LW_PS_PER_US,
                            rows[i].end * LW_PS_PER_US);
}

const struct lw_sim_term *term_of(const struct world *w, const char *name)
{
    for (int32_t i = 0; i < w->s.n_terms; i++)
        if (strcmp(w->s.terms[i].name, name) == 0)
            return &w->s.terms[i];
    return NULL;
}

static void make_oracle(enum sim_bench which, struct lw_plan *plan, int32_t n_ranks)
{
    struct lw_err err = {0};

    if (sim_bench_plan(which, n_ranks, plan, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

void make_w_ar(struct lw_plan *plan, int32_t n_ranks)
{
    make_oracle(SIM_BENCH_W_AR, plan, n_ranks);
}

void make_w_ddp(struct lw_plan *plan, int32_t n_ranks)
{
    make_oracle(SIM_BENCH_W_DDP, plan, n_ranks);
}

lw_ps w_ar_time(int32_t n_ranks)
{
    /* B / n bytes at 50e9 B/s = B / n * 20 ps */
    return 2 * ((lw_ps)n_ranks - 1) * (SIM_BENCH_BYTES / n_ranks * 20 + 500 * LW_PS_PER_NS);
}

static void expect_same_rows(const struct lw_timeline *a, const struct lw_timeline *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->comm_workers, b->comm_workers);
    for (int64_t i = 0; i < a->n; i++) {
        struct lw_span x = lw_timeline_get(a, i), y = lw_timeline_get(b, i);
        if (x.step != y.step || x.pass != y.pass || x.rank != y.rank || x.stream != y.stream ||
            x.comm != y.comm || x.op != y.op || x.kind != y.kind || x.ready != y.ready ||
            x.issue != y.issue || x.start != y.start || x.all_in != y.all_in || x.end != y.end)
            fail_msg("rank %d op %d: folded %lld..%lld, unfolded rank %d op %d %lld..%lld", x.rank,
                     x.op, (long long)x.start, (long long)x.end, y.rank, y.op, (long long)y.start,
                     (long long)y.end);
    }
}

/* The lengths that a run without rows tells, folded or not. */
static void expect_lengths(const struct lw_plan *plan, const struct lw_cluster *c,
                           struct lw_sim_options o, const struct lw_summary *s)
{
    struct lw_sim_stats unused;
    struct lw_err err = {0};
    lw_ps lengths[64];

    assert_true(o.n_steps <= 64);
    if (lw_sim_run_steps(plan, c, &o, lengths, &unused, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(s->n_steps, o.n_steps);
    assert_memory_equal(lengths, s->steps, (size_t)s->n_steps * sizeof *lengths);
}

/* The parts of every rank's period add up to it, and the steps to the run. */
static void expect_sums(const struct lw_summary *s, const struct lw_timeline *t)
{
    lw_ps begin = INT64_MAX, end = 0, steps = 0;

    for (int32_t r = 0; r < s->n_ranks; r++) {
        const struct lw_measure *m = &s->ranks[r];
        lw_ps exposed = m->transfer;
        for (int i = 0; i < LW_N_WAITS; i++)
            exposed += m->wait[i];
        assert_int_equal(m->exposed_comm, exposed);
        assert_int_equal(m->end - m->start,
                         m->compute_busy + m->exposed_copy + m->exposed_comm + m->idle);
        assert_true(m->copy_busy >= m->exposed_copy && m->comm_busy >= m->exposed_comm);
    }
    for (int64_t i = 0; i < t->n; i++) {
        begin = t->start[i] < begin ? t->start[i] : begin;
        end = t->end[i] > end ? t->end[i] : end;
    }
    for (int32_t k = 0; k < s->n_steps; k++)
        steps += s->steps[k];
    assert_int_equal(steps, end - begin);
}

static void expect_same_summary(const struct lw_sim_classes *c, const struct lw_timeline *t,
                                const struct lw_plan *plan, const struct lw_cluster *cluster,
                                struct lw_sim_options o)
{
    struct lw_summary a, b;
    struct lw_err err = {0};

    if (t->n == 0)
        return;
    if (lw_sim_summarize(c, 0, &a, &err) != LW_OK ||
        lw_timeline_summarize(t, plan, 0, &b, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(a.n_ranks, b.n_ranks);
    for (int32_t r = 0; r < a.n_ranks; r++) {
        struct lw_measure x = lw_summary_of(&a, r), y = lw_summary_of(&b, r);
        assert_memory_equal(&x, &y, sizeof x);
    }
    assert_int_equal(a.n_steps, b.n_steps);
    assert_memory_equal(a.steps, b.steps, (size_t)a.n_steps * sizeof *a.steps);
    assert_int_equal(a.step, b.step);
    assert_int_equal(a.ranks[a.worst].rank, b.ranks[b.worst].rank);
    assert_int_equal(a.span, b.span);
    assert_memory_equal(&a.bubble_ratio, &b.bubble_ratio, sizeof a.bubble_ratio);
    assert_memory_equal(&a.compute_share, &b.compute_share, sizeof a.compute_share);
    expect_sums(&b, t);
    assert_int_equal(a.peak_memory_bytes, b.peak_memory_bytes);
    assert_int_equal(b.memory.rank >= 0 ? b.memory.total : -1, b.peak_memory_bytes);
    assert_int_equal(a.memory.rank, b.memory.rank);
    assert_int_equal(a.memory.at, b.memory.at);
    assert_int_equal(a.memory.op, b.memory.op);
    assert_memory_equal(a.memory.bytes, b.memory.bytes, sizeof a.memory.bytes);
    assert_int_equal(a.n_ops, b.n_ops);
    for (int i = 0; i < 4; i++) {
        o.no_fold = i & 1;
        o.no_merge = i & 2;
        expect_lengths(plan, cluster, o, &b);
    }
    lw_summary_free(&a);
    lw_summary_free(&b);
}

void run_both(const struct lw_plan *plan, const struct lw_cluster *c, struct lw_sim_options o,
              struct lw_timeline *t, struct lw_sim_stats *s)
{
    struct lw_timeline all = {0};
    struct lw_sim_stats folded;
    struct lw_sim_classes classes;
    struct lw_err err = {0};

    *t = (struct lw_timeline){0};
    o.no_fold = o.no_merge = false;
    if (lw_sim_run(plan, c, &o, t, &folded, &err) != LW_OK ||
        lw_sim_run_classes(plan, c, &o, &classes, s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    o.no_fold = o.no_merge = true;
    if (lw_sim_run(plan, c, &o, &all, s, &err) != LW_OK ||
        timeline_check(t, plan, &err) != LW_OK)
        fail_msg("%s", err.msg);
    expect_same_rows(t, &all);
    expect_same_summary(&classes, &all, plan, c, o);
    assert_int_equal(folded.end, s->end);
    assert_int_equal(folded.n_ops, s->n_ops);
    assert_int_equal(folded.n_messages, s->n_messages);
    assert_int_equal(s->n_simulated, plan->n_ranks);
    assert_true(folded.n_simulated <= plan->n_ranks && folded.n_events <= s->n_events);
    s->n_simulated = folded.n_simulated;
    lw_sim_classes_free(&classes);
    lw_timeline_free(&all);
}

lw_ps run_end(const struct lw_plan *plan, const struct lw_cluster *c, struct lw_sim_options o)
{
    struct lw_sim_stats folded, all;
    struct lw_err err = {0};

    if (lw_sim_run(plan, c, &o, NULL, &folded, &err) != LW_OK)
        fail_msg("%s", err.msg);
    o.no_fold = o.no_merge = true;
    if (lw_sim_run(plan, c, &o, NULL, &all, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(folded.end, all.end);
    return all.end;
}

int64_t run_without_memory(const struct lw_plan *plan, const struct lw_cluster *c,
                           struct lw_sim_options o)
{
    struct {
        struct lw_timeline t;
        struct lw_sim_stats s;
    } out = {.s.end = -5};
    struct failing_alloc k = failing_alloc_begin(&out, sizeof out);

    do
        lw_alloc_fail_at(++k.n);
    while (failing_alloc_failed(&k, lw_sim_run(plan, c, &o, &out.t, &out.s, NULL)));
    lw_timeline_free(&out.t);
    failing_alloc_end(&k, 0);
    return k.n - 1;
}
