/* The executor's whole matrix on the strict fake of tests/fake_gpu: groups, schedules, bucket and
 * shard policies, accumulation, types, options and the two ways to place ranks (streams of one
 * process, a process each). A covering array: every two values of two factors meet in at least one
 * run, as far as any plan has both. Each run is verified bitwise. LAPWING_MANY runs all of the
 * array, otherwise every 16th row. Values that never meet are refused by lw_plan_build with a
 * message; which factors may refuse each other is written down here. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/schedule/schedule.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/fake_gpu.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"

enum factor { GROUPS, SCHEDULE, BUCKETS, SHARDS, MICRO, TYPE, HOOK, CLIP, OVERLAP, SUBMIT, PLACE,
              N_FACTORS };
enum { MOST_VALUES = 32, MOST_ROWS = 512, TRIES = 3000, FEW_TRIES = 500, KEPT_TRIES = 20 };

/* What a value adds to the command line. SCHEDULE and BUCKETS are filled from their tables. */
static struct {
    const char *name;
    int n;
    const char *value[MOST_VALUES];
} factors[N_FACTORS] = {
    [GROUPS] = {"groups", 9, {"--dp 2", "--dp 3", "--dp 4", "--pp 2", "--pp 4", "--dp 2 --pp 2",
                              "--dp 2 --tp 2", "--pp 2 --tp 2", "--dp 2 --pp 2 --tp 2"}},
    [SCHEDULE] = {"schedule", 0, {0}},
    [BUCKETS] = {"buckets", 0, {0}},
    [SHARDS] = {"shards", 11, {"--zero 0", "--zero 1 --shard-policy oss-greedy",
                               "--zero 1 --shard-policy lpt",
                               "--zero 1 --shard-policy flat-contiguous",
                               "--zero 1 --shard-policy per-tensor",
                               "--zero 2 --shard-policy oss-greedy",
                               "--zero 2 --shard-policy flat-contiguous",
                               "--zero 2 --shard-policy per-tensor",
                               "--zero 2 --overlap-param-gather on",
                               "--zero 3 --shard-policy flat-contiguous",
                               "--zero 3 --shard-policy rows"}},
    [MICRO] = {"accumulation", 5, {"--micro-batches 1", "--micro-batches 4", "--micro-batches 8",
                                   "--no-sync 1", "--micro-batches 3 --no-sync 2"}},
    [TYPE] = {"type", 4, {"", "--grad-dtype bf16", "--grad-dtype f16", "--grad-dtype f64"}},
    [HOOK] = {"hook", 2, {"", "--comm-hook bf16"}},
    [CLIP] = {"clip", 2, {"", "--clip 1"}},
    [OVERLAP] = {"overlap", 2, {"", "--overlap off"}},
    [SUBMIT] = {"submission", 2, {"", "--graph"}},
    [PLACE] = {"place", 2, {"--transport loop", "--spawn"}},
};

struct row {
    int8_t value[N_FACTORS];
};

struct array {
    struct prng r;
    struct lw_workload w;
    struct lw_cluster c;
    bool met[N_FACTORS][MOST_VALUES][N_FACTORS][MOST_VALUES];
    struct row rows[MOST_ROWS];
    int n_rows, n_pairs, n_refused;
};

static void fill_factors(void)
{
    static char text[2][MOST_VALUES][80];

    for (int s = 0; s < LW_SCHEDULE_CUSTOM; s++) {
        int32_t chunks = lw_schedule_chunks((enum lw_schedule)s);
        bool several = strstr(lw_schedule_name((enum lw_schedule)s), "interleaved") != NULL ||
                       s == LW_SCHEDULE_LOOPED_BFS;
        snprintf(text[0][s], sizeof text[0][s], "--schedule %s --chunks %d",
                 lw_schedule_name((enum lw_schedule)s), (int)(several ? 2 : chunks ? chunks : 1));
        factors[SCHEDULE].value[s] = text[0][s];
    }
    factors[SCHEDULE].n = LW_SCHEDULE_CUSTOM;
    for (int b = 0; b < LW_N_BUCKET_POLICIES; b++) {
        snprintf(text[1][b], sizeof text[1][b], "--bucket-policy %s",
                 lw_bucket_policy_name((enum lw_bucket_policy_id)b));
        factors[BUCKETS].value[b] = text[1][b];
    }
    factors[BUCKETS].value[LW_N_BUCKET_POLICIES] = ""; /* ZeRO-3 has units of its own */
    factors[BUCKETS].n = LW_N_BUCKET_POLICIES + 1;
}

/* A schedule says nothing about a plan of one stage, a shard nothing about one rank. */
static bool matters(const struct row *row, enum factor f)
{
    const char *groups = factors[GROUPS].value[row->value[GROUPS]];

    if (f == SCHEDULE)
        return strstr(groups, "--pp") != NULL;
    if (f == BUCKETS || f == SHARDS || f == HOOK)
        return strstr(groups, "--dp") != NULL;
    return true;
}

static const char *words_of(const struct row *row, enum factor last, char text[640])
{
    int at = 0;

    text[0] = '\0';
    for (int f = 0; f <= (int)last; f++)
        if (matters(row, (enum factor)f))
            at += snprintf(text + at, 640 - (size_t)at, " %s", factors[f].value[row->value[f]]);
    return text;
}

static struct lw_strategy strategy_of(const struct row *row)
{
    struct lw_strategy s = lw_strategy_default();
    char text[640], *save, *name, *value;
    struct lw_err err = {0};

    words_of(row, OVERLAP, text);
    for (name = strtok_r(text, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        value = strtok_r(NULL, " ", &save);
        assert_ok(lw_strategy_set(&s, name + 2, value, &err), err);
    }
    return s;
}

static bool can_be_planned(const struct array *a, const struct row *row, struct lw_err *err)
{
    struct lw_strategy s = strategy_of(row);
    struct lw_cost cost = lw_sim_cost(&a->c);
    struct lw_plan p = {0};

    if (lw_plan_build(&a->w, &s, &cost, &p, err) != LW_OK)
        return false;
    lw_plan_free(&p);
    return true;
}

/* The pairs of a row that no earlier row has; `mark` notes them. */
static int new_pairs(struct array *a, const struct row *row, bool mark)
{
    int n = 0;

    for (int f = 0; f < N_FACTORS; f++)
        for (int g = f + 1; g < N_FACTORS; g++) {
            bool *met = &a->met[f][row->value[f]][g][row->value[g]];
            if (*met || !matters(row, (enum factor)f) || !matters(row, (enum factor)g))
                continue;
            n++;
            *met |= mark;
        }
    return n;
}

struct pair {
    enum factor f, g;
    int v, u;
};

/* Types and hooks rule out many plans: every other row has none. */
static struct row draw(struct array *a, struct pair p)
{
    struct row row;

    for (int f = 0; f < N_FACTORS; f++)
        row.value[f] = (int8_t)prng_in(&a->r, 0, factors[f].n - 1);
    if (prng_in(&a->r, 0, 1))
        row.value[TYPE] = row.value[HOOK] = 0;
    row.value[p.f] = (int8_t)p.v;
    row.value[p.g] = (int8_t)p.u;
    return row;
}

/* Values that no plan has both of: words of one, and of a later factor. */
static bool never_meets(struct pair p)
{
    static const char *const apart[][2] = {
        {"--bucket-policy", "--zero 3"}, /* units are buckets */
        {"--bucket-policy", "--zero 2"}, /* test_exec_matrix says which */
        {"sharded-ddp", "--zero 0"},     /* needs owners of whole parameters */
        {"sharded-ddp", "flat-contiguous"},
        {"sharded-ddp", "lpt"},
        {"sharded-ddp", "per-tensor"},
        {"sharded-ddp", "--grad-dtype"},
        {"sharded-ddp", "--comm-hook"},
        {"--zero 2 --shard-policy oss-greedy", "--grad-dtype"},
        {"--zero 2 --shard-policy oss-greedy", "--comm-hook"},
        {"--schedule dualpipe", "--micro-batches 1"}, /* needs two micro-batches for each rank */
        {"--schedule dualpipe", "--no-sync 1"},
        {"--schedule dualpipe", "--micro-batches 3 --no-sync 2"},
        {"colossal-interleaved", "--micro-batches 1"}, /* a multiple of the ranks */
        {"colossal-interleaved", "--no-sync 1"},
        {"colossal-interleaved", "--micro-batches 3 --no-sync 2"},
    };

    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (strstr(factors[p.f].value[p.v], apart[i][0]) &&
            strstr(factors[p.g].value[p.u], apart[i][1]))
            return true;
    return false;
}

/* Of some random rows with the pair the one that meets the most. false: none can be planned. */
static bool best_row(struct array *a, struct pair p, struct row *best, struct lw_err *err)
{
    int most = 0, tries = never_meets(p) ? unit_cases(FEW_TRIES, TRIES) : TRIES;

    for (int i = 0, kept = 0; i < tries && kept < KEPT_TRIES; i++) {
        struct row row = draw(a, p);
        if (!matters(&row, p.f) || !matters(&row, p.g))
            continue;
        int n = new_pairs(a, &row, false);
        if (n <= most) { /* no better: whether it can be planned does not matter */
            kept++;
        } else if (can_be_planned(a, &row, err)) {
            kept++;
            most = n;
            *best = row;
        }
    }
    return most > 0;
}

/* A schedule applies to some groups only. */
static bool applies(struct pair p)
{
    struct row row = {{0}};

    if (p.f != GROUPS)
        return true;
    row.value[GROUPS] = (int8_t)p.v;
    return matters(&row, p.g);
}

static void cover(struct array *a, struct pair p)
{
    struct row row;
    struct lw_err err = {0};

    if (!applies(p))
        return;
    a->n_pairs++;
    if (a->met[p.f][p.v][p.g][p.u])
        return;
    if (best_row(a, p, &row, &err)) {
        assert_true(a->n_rows < MOST_ROWS);
        new_pairs(a, &row, true);
        a->rows[a->n_rows++] = row;
        return;
    }
    a->n_refused++;
    if (!never_meets(p))
        fail_msg("%s with %s: %s", factors[p.f].value[p.v], factors[p.g].value[p.u], err.msg);
}

static void make_array(struct array *a)
{
    for (int f = 0; f < N_FACTORS; f++)
        for (int g = f + 1; g < N_FACTORS; g++)
            for (int v = 0; v < factors[f].n; v++)
                for (int u = 0; u < factors[g].n; u++)
                    cover(a, (struct pair){(enum factor)f, (enum factor)g, v, u});
}

static void run_words(const char *options)
{
    char words[1024];
    int rc;

    snprintf(words, sizeof words,
             "FAKE_GPU_COUNT=8 LD_LIBRARY_PATH=$LAPWING_FAKE_GPU $L exec -w w.json -c dgx-a100 "
             "--as-recorded%s --backend nccl --compute sleep --steps 2 --warmup 1 --timeout 60 "
             "--no-db --format json", options);
    const char *out = shell(words, &rc);
    if (rc != 0 || !strstr(out, "\"verified\": true"))
        fail_msg("%s: status %d: %s", options, rc, out);
}

static void make_workload(void)
{
    shell("$L model mlp --layers 16 --width 16 -o w.json >/dev/null", NULL);
}

/* Groups of a send and a receive around a ring of four: the streams record the event of their
 * communicator in another order than that in which they were given. */
TEST(exchanges_around_a_ring_end_in_a_loop)
{
    needs_fakes();
    make_workload();
    run_words(" --pp 4 --schedule colossal-interleaved --chunks 2 --micro-batches 4 "
              "--transport loop");
}

TEST(every_two_values_meet_in_a_run_that_ends_like_one_rank)
{
    static struct array a;
    struct lw_err err = {0};
    char text[640];

    needs_fakes();
    a.r = prng_start("the matrix on the fake");
    fill_factors();
    make_workload();
    assert_ok(lw_workload_read(fixture_path("w.json"), &a.w, &err), err);
    assert_ok(lw_cluster_find("dgx-a100", &a.c, &err), err);
    make_array(&a);
    const int of = unit_cases(16, 1);
    printf("%d pairs of values in %d runs, %d pairs refused\n", a.n_pairs, a.n_rows, a.n_refused);
    for (int i = (int)prng_in(&a.r, 0, of - 1); i < a.n_rows; i += of)
        run_words(words_of(&a.rows[i], PLACE, text));
    lw_cluster_free(&a.c);
    lw_workload_free(&a.w);
}

TEST_GROUP(fixture_open, fixture_close)
