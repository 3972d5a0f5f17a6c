/* Pipelines, tensor groups and copies of parameters, run and verified:
 * docs/design/stage_values.md. The model is the chain of tests/lib/exec/exec_chain.h. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/plan/op.h"
#include "shared/lower/lower_grid.h"
#include "tests/lib/exec/exec_chain.h"

#define TABLES "../shared/golden/schedules"

/* Runs, is verified, and returns the bytes of parameters compared; *messages: of messages. */
static int64_t verified(const struct lw_plan *p, enum exec_optimizer_kind kind, int64_t *messages)
{
    struct lw_exec_options o = options();

    o.optimizer = exec_optimizer_of(kind);
    return exec_verified(p, &o, p->name, messages);
}

/* --- every schedule --------------------------------------------------------------------------- */

/* Two stages of two modules, two micro-batches: an activation and a gradient each, 80 bytes, in 3
 * steps: 3 * 2 * 2 * 80 = 960 bytes of messages. Parameters of 10 to 13 elements: 46 * 4 = 184
 * bytes. */
TEST(values_pass_between_two_stages)
{
    int64_t messages;
    struct chain c;

    chain_init(&c, 4);
    struct lw_plan p = build(&c, "pp 2 micro-batches 2");
    assert_int_equal(verified(&p, EXEC_SGD, &messages), 184);
    assert_int_equal(messages, 960);
    lw_plan_free(&p);
}

struct size {
    char schedule[40];
    int p, m, v;
};

/* Messages of a step: each micro-batch crosses the boundaries between parts on different ranks
 * twice. */
static void run_schedule(const struct size *k, const char *more)
{
    bool chunks = strncmp(k->schedule, "interleaved", 11) == 0 ||
                  strncmp(k->schedule, "looped", 6) == 0 || strstr(k->schedule, "colossal_i");
    bool folded = k->v == 2 && !chunks, both = strcmp(k->schedule, "dualpipe") == 0;
    int parts = both ? k->p : k->p * k->v;
    char words[160], chunk[24] = "";
    int64_t messages;
    struct chain c;

    chain_init(&c, parts);
    if (chunks)
        snprintf(chunk, sizeof chunk, " chunks %d", k->v);
    snprintf(words, sizeof words, "schedule %s pp %d micro-batches %d%s%s", k->schedule, k->p, k->m,
             chunk, more);
    struct lw_plan p = build(&c, words);
    int64_t numel = 10 * parts + parts * (parts - 1) / 2, copies = both ? 2 : 1;
    int64_t ranks = strstr(more, "dp 2") ? 2 : 1;
    int64_t crossed = folded && !both ? parts - 2 : parts - 1;
    assert_int_equal(verified(&p, EXEC_MOMENTUM, &messages), strstr(more, "zero 1")
                                                                 ? numel * (4 * copies * ranks + 4)
                                                                 : numel * 8 * copies * ranks);
    assert_int_equal(messages, 3 * 2 * crossed * k->m * 80 * ranks);
    lw_plan_free(&p);
}

TEST(known_schedules_end_like_one_rank)
{
    static const struct size sizes[] = {
        {"gpipe", 3, 5, 1},
        {"1f1b", 4, 6, 1},
        {"interleaved_1f1b", 2, 4, 2},
        {"looped_bfs", 2, 4, 3},
        {"interleaved_zb", 2, 4, 2},
        {"zb_h1", 3, 6, 1},
        {"zb_h2", 2, 4, 1},
        {"zb_auto_1p", 3, 5, 1},
        {"zb_auto_2p", 3, 5, 1},
        {"zbv", 3, 6, 2},
        {"zbv_auto", 2, 4, 2},
        {"v_half", 2, 4, 2},
        {"v_min", 3, 6, 2},
        {"dualpipe", 4, 8, 2},
        {"dualpipev", 2, 4, 2},
        {"colossal_1f1b", 4, 6, 1},
        {"colossal_interleaved", 2, 4, 2},
    };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        run_schedule(&sizes[i], "");
        run_schedule(&sizes[i], " dp 2");
    }
}

/* More micro-batches than ranks in a group, the last of fewer; all in one, of fewer than ranks. */
TEST(groups_of_micro_batches_end_like_one_rank)
{
    run_schedule(&(struct size){"interleaved_1f1b", 2, 8, 2}, " micro-batch-group 3");
    run_schedule(&(struct size){"interleaved_1f1b", 2, 5, 3}, " micro-batch-group 3 dp 2");
    run_schedule(&(struct size){"interleaved_1f1b", 4, 3, 2}, " micro-batch-group 3");
}

TEST(drained_pipelines_end_like_one_rank)
{
    run_schedule(&(struct size){"1f1b", 3, 6, 1}, " drain-every 2");
    run_schedule(&(struct size){"interleaved_1f1b", 2, 6, 2}, " drain-every 2 dp 2");
    run_schedule(&(struct size){"zbv", 2, 8, 2}, " drain-every 4");
    run_schedule(&(struct size){"1f1b", 2, 4, 1}, " drain-every 1");
}

TEST(recorded_schedules_end_like_one_rank)
{
    const int most_stages = unit_cases(4, 8);
    DIR *d = opendir(TABLES);
    int n = 0;

    if (!d) {
        printf("SKIP recorded_schedules_end_like_one_rank: no " TABLES "\n");
        skip();
    }
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct size k = {0};
        char *at = strstr(e->d_name, "_p");
        if (strncmp(e->d_name, "lowered", 7) == 0 || !at ||
            (size_t)(at - e->d_name) >= sizeof k.schedule)
            continue;
        while (strstr(at + 1, "_p"))
            at = strstr(at + 1, "_p");
        if (sscanf(at, "_p%d_m%d_v%d.csv", &k.p, &k.m, &k.v) != 3 || k.p > most_stages)
            continue;
        memcpy(k.schedule, e->d_name, (size_t)(at - e->d_name));
        run_schedule(&k, n++ % 2 ? "" : " dp 2 zero 1");
    }
    closedir(d);
    assert_true(n >= unit_cases(55, 70));
}

/* A grid without a model: messages of no bytes carry one element. */
TEST(a_grid_alone_is_verified_by_its_messages)
{
    const struct lw_grid_durations d = {.f = 1000, .b = 2000, .i = 1000, .w = 1000, .comm = 0};
    const struct lw_schedule_shape shape = {
        .schedule = LW_SCHEDULE_1F1B, .n_ranks = 2, .n_chunks = 1, .n_micro_batches = 3};
    int64_t messages;
    struct lw_grid g;
    struct lw_plan p;
    struct lw_err err = {0};

    assert_int_equal(lw_schedule_grid(&shape, &g, &err), LW_OK);
    assert_int_equal(lw_grid_plan(&g, "grid", LW_SCHEDULE_1F1B, &d, &p, &err), LW_OK);
    assert_int_equal(verified(&p, EXEC_SGD, &messages), 0);
    assert_int_equal(messages, 3 * 2 * 3 * 4); /* steps, directions, micro-batches, an f32 */
    lw_plan_free(&p);
    lw_grid_free(&g);
}

/* --- dp x pp x tp x ZeRO ---------------------------------------------------------------------- */

TEST(all_kinds_of_parallelism_together)
{
    char words[120];
    int64_t messages;
    struct chain c;

    chain_init(&c, 4);
    chain_split(&c);
    for (int zero = 0; zero < 4; zero++) {
        snprintf(words, sizeof words, "dp 2 pp 2 tp 2 micro-batches 2 zero %d", zero);
        struct lw_plan p = build(&c, words);
        /* 24 elements of a stage over tp 2: 12 on each of 8 ranks. adam: weights and two states of
         * 4 bytes, of which ZeRO keeps half on a rank (2 and 3; 3 half of the weights too) */
        int64_t whole = 8 * 12 * 4, bytes = verified(&p, EXEC_ADAM, &messages);
        assert_int_equal(bytes, zero == 0   ? 3 * whole
                                : zero == 3 ? (whole + 2 * whole) / 2
                                            : whole + 2 * whole / 2);
        /* 3 steps, 2 micro-batches: an activation and a gradient of 80 bytes over 4 links; a sum
         * of 40 bytes forward and one backward on each of 8 ranks, 32 a step. */
        assert_int_equal(messages, 3 * 2 * 2 * 80 * 4 + 3 * 32 * 40);
        lw_plan_free(&p);
    }
}

/* The last module's parameter is the first one's: two copies, whose gradients are summed over the
 * stages. */
TEST(tied_copies_stay_equal)
{
    static const char *const words[] = {"pp 2 micro-batches 2", "pp 2 dp 2 micro-batches 2 zero 1",
                                        "pp 4 dp 2 micro-batches 8 schedule dualpipe",
                                        "pp 3 micro-batches 4 bucket-policy picotron dp 2",
                                        "pp 2 dp 3 micro-batches 2 zero 2",
                                        "pp 2 dp 2 micro-batches 2 zero 2 shard-policy oss-greedy",
                                        "pp 2 dp 2 micro-batches 2 zero 3 no-sync 1",
                                        "pp 2 dp 3 micro-batches 4 chunks 2 schedule zbv zero 3"};
    int64_t messages;
    struct chain c;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        chain_init(&c, 4);
        c.params[3].numel = c.params[0].numel;
        c.params[3].tied = 0;
        memmove(c.order, c.order + 1,
                3 * sizeof *c.order); /* the last one has no place of its own */
        c.w.n_ready = 3;
        struct lw_plan p = build(&c, words[i]);
        assert_true(verified(&p, EXEC_MOMENTUM, &messages) > 0);
        lw_plan_free(&p);
    }
}

/* The map of used parameters travels in the pass that ends a step; activations of the pass
 * before it do not lie where its numbers wait. */
TEST(passes_of_a_step_keep_their_numbers_apart)
{
    int64_t messages;
    struct chain c;

    chain_init(&c, 2);
    struct lw_plan p = build(&c, "dp 2 pp 2 no-sync 1 bucket-policy c10d-2020");
    verified(&p, EXEC_SGD, &messages);
    /* in 3 steps on 4 ranks a map of 4 bytes; in each of 2 passes of 3 steps 80 bytes to and fro on
     * 2 ranks */
    assert_int_equal(messages, 3 * 4 * 4 + 3 * 2 * 2 * 80 * 2);
    lw_plan_free(&p);
}

/* --- faults ----------------------------------------------------------------------------------- */

static void expect_fault(const struct lw_plan *p, const char *words)
{
    struct lw_exec_options o = options();

    exec_expect_fault(p, &o, words);
}

/* The n-th op of a kind on a rank. */
static struct lw_op *find(const struct lw_plan *p, int32_t rank, enum lw_op_kind kind, int n)
{
    const struct lw_program g = lw_plan_program(p, 0, rank);

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p->ops[i].kind == kind && n-- == 0)
            return &p->ops[i];
    fail_msg("no such op");
    return NULL;
}

/* Rank 0 runs F0 S0 F1 S1 ...; now F0 F1 S1 S0: the activations go in the other order. */
TEST(swapped_sends_are_named)
{
    struct chain c;

    chain_init(&c, 2);
    struct lw_plan p = build(&c, "pp 2 micro-batches 2 schedule gpipe");
    struct lw_op *f = find(&p, 0, LW_OP_FORWARD, 0), first = f[1];
    assert_int_equal(first.kind, LW_OP_SEND);
    f[1] = f[2];
    f[2] = f[3];
    f[3] = first;
    p.deps[f[2].first_dep]--; /* its forward has moved */
    expect_fault(&p, "takes the activation after module 0 of micro-batch 0 from rank 0");
    expect_fault(&p, "it is the activation after module 0 of micro-batch 1");
    lw_plan_free(&p);
}

/* One of the messages that rank 0 is given goes elsewhere: what lay in its place stays there. */
static int32_t diverted_in; /* so many before it */

static enum lw_status divert(struct exec_stream *s, struct exec_comm *c,
                             const struct exec_transfer *x, int32_t n, struct lw_err *err)
{
    static char elsewhere[4096];
    struct exec_transfer copy[EXEC_MOST_TRANSFERS];

    for (int32_t i = 0; i < n; i++) {
        bool counts = x[i].op == LW_OP_RECV ? x[i].message.peer == 1 : x[i].op == LW_OP_ALL_REDUCE;
        copy[i] = x[i];
        if (counts && diverted_in-- == 0)
            copy[i].message.mem = elsewhere;
    }
    return exec_backend_threads.communicate(s, c, copy, n, err);
}

static void run_diverted(const struct chain *c, const char *words, int32_t n, const char *says)
{
    struct exec_backend b = exec_backend_threads;
    struct lw_exec_options o = options();
    struct lw_plan p = build(c, words);

    b.communicate = divert;
    o.backend = &b;
    o.n_warmup = 0;
    diverted_in = n;
    exec_ends(&p, &o, LW_ENO, says);
    lw_plan_free(&p);
}

/* Two stages, four micro-batches: gradient 0 comes into the place that activation 0 had,
 * gradient 2 into that of activation 2. In the first step a place without a message before it
 * holds nothing. */
TEST(a_message_that_does_not_come_is_named)
{
    struct chain c;

    chain_init(&c, 2);
    run_diverted(&c, "pp 2 micro-batches 4", 0,
                 "takes the gradient before module 1 of micro-batch 0 from rank 1");
    run_diverted(&c, "pp 2 micro-batches 4", 2,
                 "; it is the old content of the memory: no message arrived");
    run_diverted(&c, "pp 2 micro-batches 4", 4 + 3, "step 1: op ");
}

/* Sums over a tensor group are compared by the op that takes them: here what one rank brought is
 * there still. */
TEST(a_sum_that_is_not_made_is_named)
{
    struct chain c;

    chain_init(&c, 2);
    for (int i = 0; i < 2; i++) {
        c.modules[i].tp_split = LW_TP_ROW;
        c.params[i].tp_split = LW_TP_COLUMN;
        c.params[i].numel = 12;
        c.modules[i].tp_calls = 1;
        c.modules[i].tp_forward_bytes = c.modules[i].tp_backward_bytes = 40;
    }
    run_diverted(&c, "tp 2 micro-batches 2", 0,
                 "step 0: op 1 (all_reduce activations), element 0, rank ");
}

TEST(messages_without_their_other_end_are_named)
{
    struct chain c;

    chain_init(&c, 2);
    struct lw_plan p = build(&c, "pp 2 micro-batches 2");
    struct lw_op *send = find(&p, 1, LW_OP_SEND, 1);
    send->kind = LW_OP_EVENT_WAIT;
    send->comm = send->operand = -1;
    expect_fault(&p,
                 "(recv, module 0) of 'first' for role 'stage 0' on rank 0: rank 1 never sends it");
    lw_plan_free(&p);
}

/* The wait of one op for another is taken away; it may be won by chance, so it is looked for. */
TEST(missing_waits_are_named)
{
    static const struct {
        int32_t rank;
        enum lw_op_kind kind;
        const char *words;
    } cases[] = {
        {1, LW_OP_FORWARD, "(forward, module 1) of 'first' for role 'stage 1' does not wait"},
        {0, LW_OP_SEND, "(send, module 0) of 'first' for role 'stage 0' does not wait"},
        {0, LW_OP_BACKWARD, "(backward, module 0) of 'first' for role 'stage 0' does not wait"},
        {0, LW_OP_ALL_REDUCE, "(all_reduce, bucket 0) of 'first' for role 'stage 0' does not wait"},
        {1, LW_OP_COPY_OUT, "(copy_out, bucket 2) of 'first' for role 'stage 1' does not wait"},
    };
    struct chain c;

    chain_init(&c, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_plan p = build(&c, "pp 2 dp 2 micro-batches 1");
        int32_t rank = 2 * cases[i].rank; /* data is faster than the pipeline */
        find(&p, rank, cases[i].kind, 0)->n_deps = 0;
        expect_fault(&p, cases[i].words);
        lw_plan_free(&p);
    }
}

TEST(weights_that_do_not_wait_for_the_optimizer_are_named)
{
    struct chain c;

    chain_init(&c, 2);
    struct lw_plan p = build(&c, "dp 2 zero 1 shard-policy oss-greedy");
    find(&p, 0, LW_OP_BROADCAST, 0)->n_deps = 0;
    expect_fault(&p,
                 "(optimizer) of 'first' for role 'data', which writes the weights of bucket 2");
    lw_plan_free(&p);
}

/* Whether it was checked before or not: its tables contradict each other. */
static void expect_refusal(struct lw_plan *p, const char *words)
{
    struct lw_exec_options o = options();

    exec_ends(p, &o, LW_EPLAN, words);
}

TEST(a_gradient_in_two_buckets_is_named)
{
    struct chain c;

    chain_init(&c, 2);
    c.params[1].numel = c.params[0].numel;
    struct lw_plan p = build(&c, "dp 2 bucket-policy per-tensor");
    assert_int_equal(p.n_buckets, 2);
    p.slots[p.buckets[1].first_slot] = p.slots[p.buckets[0].first_slot];
    expect_refusal(&p, "'w1' is in buckets 0 and 1");
    lw_plan_free(&p);
}

/* Without its shard all would update the parameter, alike. */
TEST(a_lost_shard_is_named)
{
    struct chain c;

    chain_init(&c, 3);
    struct lw_plan p = build(&c, "dp 2 zero 1 shard-policy oss-greedy");
    p.n_shards--;
    expect_refusal(&p, "parameter 2 'w2': no shard holds it");
    lw_plan_free(&p);
}

/* Parts of the momentum come together on one rank: 10 + 11 + 12 + 13 = 46 elements in two arrays of
 * adam, or of the stage that the rank is at (the second: 25); of every policy, and where no rank
 * owns a part. */
TEST(optimizer_state_is_consolidated)
{
    static const struct {
        const char *words;
        int32_t rank;
        int64_t elements;
    } cases[] = {
        {"dp 2 zero 1 shard-policy oss-greedy", 1, 46},
        {"dp 3 zero 1 shard-policy lpt", 0, 46},
        {"dp 3 zero 1 shard-policy flat-contiguous", 2, 46},
        {"dp 2 zero 2", 0, 46},
        {"dp 2 zero 3", 1, 46},
        {"dp 2", 1, 46},
        {"", 0, 46},
        {"dp 2 pp 2 micro-batches 2 zero 1", 3, 25},
        {"dp 2 pp 4 micro-batches 8 zero 1 schedule dualpipe", 0, 10 + 13},
    };
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};
    struct chain c;

    o.optimizer = exec_optimizer_of(EXEC_ADAM);
    chain_init(&c, 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_plan p = build(&c, cases[i].words);
        o.consolidate = cases[i].rank;
        if (lw_exec_run(&p, &o, &r, &err) != LW_OK)
            fail_msg("%s: %s", cases[i].words, err.msg);
        assert_int_equal(r.n_consolidated_bytes, cases[i].elements * 2 * 4);
        lw_exec_result_free(&r);
        o.consolidate = p.n_ranks;
        assert_int_equal(lw_exec_run(&p, &o, &r, &err), LW_EINVAL);
        lw_plan_free(&p);
    }
    struct lw_plan p = build(&c, "dp 2");
    o.consolidate = 0;
    o.optimizer = exec_optimizer_of(EXEC_SGD);
    exec_ends(&p, &o, LW_EUSAGE, "sgd keeps no state");
    lw_plan_free(&p);
}

TEST(running_out_of_memory_leaves_nothing)
{
    struct chain c;
    int64_t before;
    enum lw_status s = LW_ENOMEM;

    chain_init(&c, 2);
    struct lw_plan p = build(&c, "pp 2 dp 2 micro-batches 2 zero 1");
    struct lw_exec_options o = options();
    before = lw_alloc_live();
    for (int64_t n = 1; s != LW_OK; n += 3) { /* every third: threads take theirs, too */
        struct lw_exec_result r = {0};
        struct lw_err err = {0};
        lw_alloc_fail_at(n);
        s = lw_exec_run(&p, &o, &r, &err);
        lw_alloc_fail_at(0);
        if (s != LW_OK && s != LW_ENOMEM && s != LW_EFAILED)
            fail_msg("allocation %lld: %s", (long long)n, err.msg);
        lw_exec_result_free(&r);
        assert_int_equal(lw_alloc_live(), before);
    }
    lw_plan_free(&p);
}
