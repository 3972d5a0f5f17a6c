/* --expert-overlap: shared/lower_ops/lower_pairs.c, shared/schedule/schedule_1f1b.c,
 * docs/design/lower_expert.md. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/plans/drawn_words.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/prng.h"
#include "tests/lib/traces/model_help.h"

/* A llama of four blocks whose linear pairs are experts. */
static struct lw_workload model(void)
{
    struct lw_workload w = model_build(
        "llama-7b", (struct traces_model_shape){.batch = 1, .layers = 6, .hidden = 8, .heads = 2,
                                                .ffn = 16, .seq = 8, .vocab = 16, .dtype = "f32",
                                                .optimizer = "adam"});

    for (int32_t i = 0; i < w.n_params; i++)
        if (strstr(w.params[i].name, "mlp")) {
            w.params[i].expert = true;
            w.modules[w.params[i].module].dispatch_bytes = INT64_C(2) * 8 * 8 * 4;
        }
    return w;
}

TEST(overlapped_units_run_and_are_verified)
{
    static const char *const words[] = {
        "dp 2 ep 2 micro-batches 3 expert-overlap on",
        "dp 2 ep 2 pp 2 micro-batches 4 schedule dualpipe",
        "dp 2 ep 2 pp 2 micro-batches 5 schedule dualpipev recompute full",
        "dp 2 ep 2 pp 4 micro-batches 8 schedule dualpipe zero 1",
        "dp 2 ep 2 pp 2 micro-batches 4 schedule dualpipe zero 2 tp 2 sequence-parallel on",
        "dp 2 ep 2 pp 2 micro-batches 4 schedule interleaved-1f1b chunks 2 expert-overlap on",
        "dp 2 ep 2 pp 2 micro-batches 4 schedule interleaved-1f1b chunks 2 expert-overlap on "
        "zero 1 overlap-param-gather on",
        "dp 2 ep 2 micro-batches 4 expert-overlap on sync-each-micro-batch on",
        "dp 2 ep 2 micro-batches 3 expert-overlap on zero 1 overlap-param-gather on tp 2 "
        "tp-overlap pieces",
        "dp 2 ep 2 pp 2 tp 2 micro-batches 4 schedule dualpipe scatter-gather on",
        "dp 2 ep 2 cp 2 micro-batches 3 expert-overlap on",
        "dp 2 ep 2 pp 2 micro-batches 4 schedule dualpipe zero 3",
    };
    struct lw_workload w = model();

    exec_expect_verified(&w, words, sizeof words / sizeof *words);
    lw_workload_free(&w);
}

/* Every drawn strategy passes the proofs, those of hosts included, or is refused by name. */
TEST(random_overlapped_plans_pass_the_check)
{
    struct lw_workload w = model();
    struct prng r = prng_start("pairs");
    int built = 0;

    for (int i = 0; i < 150; i++) {
        char words[256] = "dp 2 ep 2 expert-overlap on", value[16];
        const char *schedule = ONE_OF(&r, "", "dualpipe", "dualpipev", "interleaved-1f1b");
        struct lw_plan p;
        struct lw_err err = {0};
        add_word(words, sizeof words, "schedule", schedule);
        add_word(words, sizeof words, "pp", *schedule ? ONE_OF(&r, "2", "4") : "1");
        if (*schedule == 'i')
            add_word(words, sizeof words, "chunks", ONE_OF(&r, "1", "2"));
        snprintf(value, sizeof value, "%d", 4 * (int)prng_in(&r, 1, 4));
        add_word(words, sizeof words, "micro-batches", value);
        add_word(words, sizeof words, "tp", ONE_OF(&r, "1", "2"));
        add_word(words, sizeof words, "zero", ONE_OF(&r, "0", "1", "2"));
        add_word(words, sizeof words, "recompute", ONE_OF(&r, "none", "full"));
        struct lw_strategy s = strategy(words);
        enum lw_status st = lw_plan_build(&w, &s, NULL, &p, &err);
        if (st == LW_EPLAN)
            fail_msg("%s: %s", words, err.msg);
        built += st == LW_OK;
        if (st == LW_OK)
            lw_plan_free(&p);
    }
    assert_true(built > 75);
    lw_workload_free(&w);
}

/* --- through the command line ---------------------------------------------------------------- */

/* Modules that send 48 MB each; forward and backward in ns. */
static void put_modules(const char *file, int n, long forward, long backward)
{
    char text[4096];
    size_t at = 0;

    at += (size_t)snprintf(text, sizeof text,
                           "{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"blocks\",\"batch\":1,"
                           "\"optimizer\":\"adam\",\"optimizer_ns\":0,\"modules\":[");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "%s{\"name\":\"m%d\",\"forward_ns\":%ld,\"backward_input_ns\":%ld,"
                               "\"backward_weight_ns\":%ld,\"output_bytes\":1024,"
                               "\"kept_bytes\":1048576,\"dispatch_bytes\":48000000}",
                               i ? "," : "", i, forward, backward / 2, backward / 2);
    at += (size_t)snprintf(text + at, sizeof text - at, "],\"params\":[");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "%s{\"name\":\"m%d.w\",\"numel\":1024,\"dtype\":\"bf16\","
                               "\"module\":%d},{\"name\":\"m%d.e\",\"numel\":65536,"
                               "\"dtype\":\"bf16\",\"module\":%d,\"expert\":true}",
                               i ? "," : "", i, i, i, i);
    snprintf(text + at, sizeof text - at, "]}");
    fixture_put(fixture_path(file), text);
}

static double step_ms(const char *options)
{
    const char *text =
        lapwingf("sim -w blocks.json -c dgx-h100 --collective-algorithm nccl --dp 16 --ep 16 "
                 "--interference off --no-db %s",
                 options);
    const char *at = strstr(text, "\nstep ");
    double ms = 0;

    if (!at || sscanf(at, "\nstep %lf ms", &ms) != 1)
        fail_msg("%s: no step in %s", options, text);
    return ms;
}

/* A forward of 1 ms, a backward of 2, an all-to-all of t = 0.52, twice in each. 16 micro-batches
 * are 3 forwards and 3 backwards alone and 13 units (DeepSeek-V3, arXiv 2412.19437, 3.2.1):
 * 3 (1 + 2t) + 3 (2 + 2t) + 13 max(3, 4t) = 54.24 ms; 81.465 ms where none is hidden. A unit takes
 * a little longer than 3 ms: from one backward to the next, tokens' gradients come back, go to the
 * other rank (m = 0.02 ms) and to its experts: 2 + 2t + m = 3.06. */
TEST_WITH(dualpipe_hides_all_to_alls, fixture_open, fixture_close)
{
    put_modules("blocks.json", 2, 1000000, 2000000);
    double on = step_ms("--pp 2 --micro-batches 16 --schedule dualpipe --chunks 2");
    double more = step_ms("--pp 2 --micro-batches 18 --schedule dualpipe --chunks 2");
    double off = step_ms("--pp 2 --micro-batches 16 --schedule dualpipe --expert-overlap off");

    assert_true(on > 54.24 && on < 54.24 * 1.02);
    assert_true(more - on > 2 * 3.06 - 0.002 && more - on < 2 * 3.06 + 0.002);
    assert_true(off > 81.46 && off < 81.47);
}

/* Without a pipeline: a forward f, then units of the next forward and this backward b, and the last
 * backward. Where f and b are both longer than two all-to-alls t, all is hidden but: the first
 * dispatch and combine, the dispatch of the next before the first unit, the last two dispatches of
 * gradients and the combine between them: M (f + b) + 6 t + r, against M (f + b + 4 t) + r, where r
 * is the reduction after the last backward. */
TEST_WITH(one_stage_hides_all_but_six_all_to_alls, fixture_open, fixture_close)
{
    put_modules("blocks.json", 1, 1200000, 2400000);
    double off = step_ms("--micro-batches 12"), more = step_ms("--micro-batches 13");
    double on = step_ms("--micro-batches 12 --expert-overlap on");
    double t = (more - off - 3.6) / 4, rest = off - 12 * (3.6 + 4 * t);

    assert_true(t > 0.519 && t < 0.521 && rest > 0 && rest < 0.1);
    assert_true(on > 12 * 3.6 + 6 * t + rest - 0.015 && on < 12 * 3.6 + 6 * t + rest + 0.015);
}

/* A unit that takes 2.5 ms where a forward takes 1 and a backward 2: 3 + 6 + 13 x 2.5. */
TEST_WITH(a_unit_may_take_less_than_its_two_halves, fixture_open, fixture_close)
{
    lapwing("plan --schedule dualpipe --pp 2 --micro-batches 16 --durations "
            "1ms,1ms,1ms,0us,2500us -o grid.json", NULL);
    expect("sim grid.json -c dgx-h100 --no-db", 0, "step 41.500 ms");
    expect("plan --schedule dualpipe --pp 2 --micro-batches 16 --durations 1ms,1ms,1ms,0us,0us -o "
           "grid.json --force", 2, "a unit of two must take more than 0");
    expect("plan --schedule dualpipe --pp 2 --micro-batches 16 --durations 1ms,1ms -o grid.json "
           "--force", 2, "or a fifth: of a unit of two");
}

TEST(overlap_is_refused_where_there_are_no_units)
{
    struct lw_workload w = model();

    plan_refused(&w, "dp 2 micro-batches 4 expert-overlap on", "needs --ep of at least 2");
    plan_refused(&w, "dp 2 ep 2 expert-overlap on", "needs --micro-batches of at least 2");
    plan_refused(&w, "dp 2 ep 2 pp 2 micro-batches 4 expert-overlap on",
                 "--schedule 1f1b has no units of a forward and a backward that overlap; expected "
                 "interleaved-1f1b (with --chunks), dualpipe or dualpipev");
    plan_refused(&w, "dp 2 ep 2 pp 2 micro-batches 4 schedule zb-h1 expert-overlap on",
                 "--schedule zb-h1 has no units");
    plan_refused(&w, "dp 2 ep 2 micro-batches 2 expert-overlap on zero 3",
                 "--zero 3 gathers and frees weights around each module");
    plan_refused(&w, "dp 2 ep 2 cp 2 micro-batches 2 expert-overlap on cp-comm-type p2p",
                 "--cp-comm-type p2p passes blocks around a ring");
    lw_workload_free(&w);
}

/* What a plan says of its units. */
TEST_WITH(a_plan_says_whether_its_units_overlap, fixture_open, fixture_close)
{
    put_modules("blocks.json", 2, 1000000, 2000000);
    EXPECT("plan -w blocks.json -c dgx-h100 --dp 2 --ep 2 --pp 2 --micro-batches 4 --schedule "
           "dualpipe",
           {"", 0, "each runs its compute beside the other's all-to-alls"},
           {"--zero 3", 0, "their all-to-alls of experts are exposed, because --zero 3"});
}
