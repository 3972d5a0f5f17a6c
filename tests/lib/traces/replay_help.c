/* Hand-made traces for the tests of replays. */
#include "tests/lib/traces/replay_help.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "traces/import/importer.h"
#include "shared/io/input.h"
#include "sim/predict/sim.h"
#include "tests/lib/sim/timeline_check.h"

void replay_read(struct traces_source *s, const char *file)
{
    struct lw_input in;
    struct lw_err err = {0};

    if (lw_input_read(file, 0, &in, &err) != LW_OK ||
        traces_source_take(&lw_importer_kineto, file, &in, NULL, NULL, NULL, s, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

void replay_begin(struct traces_source *s)
{
    *s = (struct traces_source){.file = "hand.json"};
    lw_trace_init(&s->trace);
}

struct lw_row_detail replay_no_detail(void)
{
    return (struct lw_row_detail){.op = -1, .dtype = -1, .group = -1, .wait_stream = -1,
                                  .wait_record = -1, .in_numel = -1, .out_numel = -1,
                                  .shape_type = -1, .shape_numel = -1};
}

void replay_row_with(struct traces_source *s, enum lw_row_class class, const char *name,
                     int64_t start, int64_t dur, int32_t track, int64_t link,
                     const struct lw_row_detail *detail)
{
    struct lw_row row = {class, start * 1000, dur * 1000, link,
                         traces_strings_add(&s->trace.strings, name, strlen(name)), track};

    if (class != LW_ROW_KERNEL && class != LW_ROW_MEM && class != LW_ROW_SYNC) {
        char thread[16] = {'1', '/', (char)('a' + track), 0};
        row.track = traces_strings_add(&s->trace.strings, thread, strlen(thread));
    }
    assert_int_equal(lw_trace_add(&s->trace, &row, detail, NULL), LW_OK);
}

void replay_row(struct traces_source *s, enum lw_row_class class, const char *name, int64_t start,
                int64_t dur, int32_t track, int64_t link)
{
    replay_row_with(s, class, name, start, dur, track, link, NULL);
}

void replay_ready(struct traces_source *s)
{
    assert_int_equal(lw_trace_sort(&s->trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&s->trace, &s->steps, NULL), LW_OK);
}

void replay_run(const struct traces_source *s, int n, const struct traces_replay_choice *choice,
                struct replay_run *out)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_err err = {0};

    *out = (struct replay_run){0};
    if (traces_replay_build(s, n, choice, &out->r, &err) != LW_OK)
        fail_msg("%s", err.msg);
    struct lw_cluster c = traces_replay_cluster(&out->r);
    if (lw_sim_run(&out->r.plan, &c, &o, &out->t, &stats, &err) != LW_OK ||
        timeline_check(&out->t, &out->r.plan, &err) != LW_OK)
        fail_msg("%s", err.msg);
    for (int64_t i = 0; i < out->t.n; i++)
        assert_int_equal(out->t.op[i], i);
}

void replay_run_free(struct replay_run *x)
{
    lw_timeline_free(&x->t);
    traces_replay_free(&x->r);
}

lw_ps replay_step(const struct replay_run *x, int32_t step)
{
    return traces_replay_host(&x->r, &x->t, step, -1);
}

static bool is_named(const char *is, const char *name)
{
    return *name == '*' ? strstr(is, name + 1) != NULL : strcmp(is, name) == 0;
}

int32_t replay_op(const struct replay_run *x, const char *name, int32_t skip)
{
    for (int32_t i = 0; i < x->r.plan.n_ops; i++)
        if (is_named(x->r.plan.ops[i].name, name) && skip-- == 0)
            return i;
    fail_msg("no op '%s'", name);
    return -1;
}

struct traces_source hand;
struct replay_run ran;

int hand_open(void **state)
{
    (void)state;
    replay_begin(&hand);
    ran = (struct replay_run){0};
    return 0;
}

void hand_run(void)
{
    replay_ready(&hand);
    replay_run(&hand, 1, &(struct traces_replay_choice){0}, &ran);
}

int hand_close(void **state)
{
    (void)state;
    replay_run_free(&ran);
    traces_source_free(&hand);
    return 0;
}

lw_ps hand_start(const char *name, int32_t skip)
{
    return ran.t.start[replay_op(&ran, name, skip)];
}

lw_ps hand_end(const char *name, int32_t skip)
{
    return ran.t.end[replay_op(&ran, name, skip)];
}
