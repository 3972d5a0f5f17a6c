/* A training step by hand, and what becomes of it. */
#include "tests/lib/traces/step_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "shared/io/input.h"
#include "tests/lib/traces/replay_help.h"
#include "traces/import/importer.h"

enum { THREAD = 1 };

void put_row(struct lw_trace *t, enum lw_row_class class, const char *name, int64_t start,
             int64_t end, int64_t link, int64_t numel)
{
    struct lw_row row = {class, start, end - start, link,
                         traces_strings_add(&t->strings, name, strlen(name)), THREAD};
    struct lw_row_detail d = {.op = -1, .dtype = -1, .group = -1, .wait_stream = -1,
                              .wait_record = -1, .in_numel = -1, .out_numel = -1,
                              .shape_numel = numel,
                              .shape_type = traces_strings_add(&t->strings, "float", 5)};

    assert_int_equal(lw_trace_add(t, &row, numel >= 0 ? &d : NULL, NULL), LW_OK);
}

void put_micro_batch(struct lw_trace *t, int64_t at)
{
    put_row(t, LW_ROW_HOST, "aten::linear", at + 35, at + 95, 10, -1);
    put_row(t, LW_ROW_HOST, "aten::linear", at + 125, at + 205, 11, -1);
    put_row(t, LW_ROW_HOST, "aten::nll_loss", at + 212, at + 218, 12, -1);
    put_row(t, LW_ROW_HOST, EVAL "NllLossBackward0", at + 240, at + 260, 12, -1);
    put_row(t, LW_ROW_HOST, EVAL "AddmmBackward0", at + 260, at + 460, 11, -1);
    put_row(t, LW_ROW_HOST, EVAL ACC, at + 461, at + 470, -1, -1);
    put_row(t, LW_ROW_HOST, ACC, at + 462, at + 466, -1, 30);
    put_row(t, LW_ROW_HOST, EVAL "AddmmBackward0", at + 480, at + 700, 10, -1);
    put_row(t, LW_ROW_HOST, EVAL ACC, at + 701, at + 712, -1, -1);
    put_row(t, LW_ROW_HOST, ACC, at + 702, at + 708, -1, 40);
}

void put_step(struct lw_trace *t, int64_t at, const char *name, bool ranges)
{
    put_row(t, LW_ROW_USER, name, at, at + 1000, -1, -1);
    put_row(t, LW_ROW_USER, "lw:zero_grad", at + 10, at + 20, -1, -1);
    put_row(t, LW_ROW_USER, "lw:forward", at + 20, at + 220, -1, -1);
    put_row(t, LW_ROW_USER, "lw:backward", at + 230, at + 730, -1, -1);
    put_row(t, LW_ROW_USER, "lw:optimizer", at + 740, at + 900, -1, -1);
    if (ranges) {
        put_row(t, LW_ROW_USER, "lw:module:a", at + 30, at + 100, -1, -1);
        put_row(t, LW_ROW_USER, "lw:module:b", at + 120, at + 210, -1, -1);
    }
    put_micro_batch(t, at);
}

struct imported import_begin(void)
{
    struct imported x = {.s.file = "hand.json"};

    lw_trace_init(&x.s.trace);
    return x;
}

void import_sort(struct imported *x)
{
    assert_int_equal(lw_trace_sort(&x->s.trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&x->s.trace, &x->s.steps, NULL), LW_OK);
}

struct imported import_step(bool ranges)
{
    struct imported x = import_begin();

    put_step(&x.s.trace, 5000, "ProfilerStep#3", ranges);
    import_sort(&x);
    return x;
}

struct imported import_file(const char *file)
{
    struct imported x = {0};

    replay_read(&x.s, file);
    return x;
}

struct imported import_sized(const char *file)
{
    const struct lw_trace_reading options = {.shapes = true};
    struct imported x = {0};
    struct lw_input in;
    struct lw_err err = {0};

    if (lw_input_read(file, 0, &in, &err) != LW_OK ||
        traces_source_take(&lw_importer_kineto, file, &in, NULL, &options, NULL, &x.s, &err) !=
            LW_OK)
        fail_msg("%s", err.msg);
    return x;
}

void import_ok(const struct traces_source *s, int n, const struct traces_choice *c,
               struct lw_workload *w, struct traces_coverage *coverage)
{
    struct lw_err err = {0};

    if (lw_workload_from_traces(s, n, c, w, coverage, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

void import_as(struct imported *x, const struct traces_choice *c)
{
    lw_workload_free(&x->w);
    import_ok(&x->s, 1, c, &x->w, &x->c);
}

void import_median(struct imported *x)
{
    import_as(x, &(struct traces_choice){.step = -1});
}

void import_free(struct imported *x)
{
    lw_workload_free(&x->w);
    traces_source_free(&x->s);
}
