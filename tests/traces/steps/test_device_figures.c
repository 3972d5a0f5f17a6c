/* Device figures of traces: hand-made ones, and every Kineto file of ../shared/traces against its
 * truth.json, to the nanosecond. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/traces/replay_help.h"
#include "traces/steps/device_figures.h"
#include "traces/trace/decimal_time.h"

#define TRUTH "../shared/traces/truth.json"

/* ---- a small trace, figures by hand ---- */

/* The trace of a test and its figures. */
static struct lw_trace t;
static struct lw_inspection i;

static int done(void **state)
{
    (void)state;
    lw_inspection_free(&i);
    lw_trace_free(&t);
    return 0;
}

#define FIGURES_TEST(name) TEST_WITH(name, NULL, done)

static void add(enum lw_row_class class, const char *name, int64_t start, int64_t dur,
                int32_t track, int64_t link)
{
    struct lw_row row = {class, start, dur, link,
                         traces_strings_add(&t.strings, name, strlen(name)), track};

    assert_int_equal(lw_trace_add(&t, &row, NULL, NULL), LW_OK);
}

static void inspect(void)
{
    assert_int_equal(lw_trace_sort(&t, NULL), LW_OK);
    assert_int_equal(lw_inspect(&t, NULL, &i, NULL), LW_OK);
}

/* Step [0,100): kernels launched at 5, 6, 7 run as compute [10,40) on stream 7, all-reduce [30,60)
 * on stream 20, copy [55,70) on stream 7; a kernel [90,120) is launched at 80 and ends later; one
 * [0,4) has no launch in the trace. */
static void make_small(void)
{
    lw_trace_init(&t);
    add(LW_ROW_USER, "ProfilerStep#3", 0, 100, 1, -1);
    add(LW_ROW_LAUNCH, "cudaLaunchKernel", 5, 1, 1, 11);
    add(LW_ROW_LAUNCH, "cudaLaunchKernel", 6, 1, 1, 12);
    add(LW_ROW_LAUNCH, "cudaMemcpyAsync", 7, 1, 1, 13);
    add(LW_ROW_LAUNCH, "cudaLaunchKernel", 80, 1, 1, 14);
    add(LW_ROW_KERNEL, "early", 0, 4, 7, 99);
    add(LW_ROW_KERNEL, "gemm", 10, 30, 7, 11);
    add(LW_ROW_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 30, 30, 20, 12);
    add(LW_ROW_MEM, "Memcpy DtoD", 55, 15, 7, 13);
    add(LW_ROW_KERNEL, "gemm", 90, 30, 7, 14);
}

static void assert_busy(const struct lw_busy *b, int64_t window, int64_t compute, int64_t comm,
                        int64_t mem, int64_t exposed_comm, int64_t exposed_mem, int64_t idle)
{
    assert_int_equal(b->window_ns, window);
    assert_int_equal(b->compute_busy_ns, compute);
    assert_int_equal(b->comm_busy_ns, comm);
    assert_int_equal(b->mem_busy_ns, mem);
    assert_int_equal(b->exposed_comm_ns, exposed_comm);
    assert_int_equal(b->exposed_mem_ns, exposed_mem);
    assert_int_equal(b->idle_ns, idle);
}

FIGURES_TEST(figures_of_a_small_trace_match_hand_arithmetic)
{
    make_small();
    inspect();
    assert_int_equal(i.n_device_rows, 5);
    assert_int_equal(i.n_resolved, 4);
    /* [0,120): compute 4+30+30, comm 30, mem 15; comm alone [40,60), mem alone [60,70);
     * 120 - 64 - 20 - 10 = 26 idle */
    assert_busy(&i.whole, 120, 64, 30, 15, 20, 10, 26);
    assert_int_equal(i.n_iterations, 1);
    /* clipped to [0,100): the last kernel counts 10 */
    assert_busy(&i.iterations[0].by_time, 100, 44, 30, 15, 20, 10, 26);
    /* launched inside: [10,120), without the early kernel; idle [70,90) */
    assert_busy(&i.iterations[0].by_launch, 110, 60, 30, 15, 20, 10, 20);
    assert_int_equal(i.iterations[0].n_gpu_ops, 4);
}

FIGURES_TEST(a_comm_op_gives_its_launch_and_start_after_the_step_start)
{
    make_small();
    inspect();
    assert_int_equal(i.iterations[0].n_comm, 1);
    const struct lw_comm_op *op = &i.iterations[0].comm[0];
    assert_string_equal(op->kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    assert_string_equal(op->op, "allreduce");
    assert_int_equal(op->stream, 20);
    assert_int_equal(op->launch_ns, 6);
    assert_int_equal(op->start_ns, 30);
    assert_int_equal(op->dur_ns, 30);
    assert_int_equal(op->bytes, -1); /* neither kernel nor host says */
}

FIGURES_TEST(sizes_come_from_the_host_where_the_kernel_has_none)
{
    struct lw_row_detail d = replay_no_detail();
    struct lw_row row = {LW_ROW_USER, 3, 5, -1, 0, 1};

    make_small();
    d.shape_numel = 1000;
    d.shape_type = traces_strings_add(&t.strings, "c10::Half", 9);
    row.name = traces_strings_add(&t.strings, "nccl:all_reduce", 15);
    assert_int_equal(lw_trace_add(&t, &row, &d, NULL), LW_OK);
    inspect();
    assert_int_equal(i.iterations[0].comm[0].bytes, 2000); /* 1000 x 2 bytes */
}

FIGURES_TEST(a_trace_without_device_work_has_no_iterations)
{
    lw_trace_init(&t);
    add(LW_ROW_USER, "ProfilerStep#3", 0, 100, 1, -1);
    inspect();
    assert_false(i.has_device);
    assert_int_equal(i.n_iterations, 0);
}

FIGURES_TEST(failing_allocations_leak_nothing)
{
    make_small();
    assert_int_equal(lw_trace_sort(&t, NULL), LW_OK);
    EACH_ALLOCATION_FAILS(1, lw_inspect(&t, NULL, &i, NULL), i, lw_inspection_free(&i));
}

/* ---- truth.json ---- */

static int64_t us(struct lw_json *j)
{
    size_t len;
    int64_t ns = -1;
    const char *text = lw_json_number_text(j, &len);

    assert_true(traces_decimal(text, len, 3, &ns));
    return ns;
}

static int64_t number(struct lw_json *j)
{
    return lw_json_type(j) == LW_JSON_NULL ? -1 : lw_json_int64(j);
}

static void check_text(struct lw_json *j, const char *got)
{
    if (lw_json_type(j) != LW_JSON_NULL) /* null: we may know more */
        assert_string_equal(got ? got : "(null)", lw_json_string(j, NULL));
}

static int n_compared;

static void check_busy(struct lw_json *j, const struct lw_busy *b, int64_t n_gpu_ops)
{
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        const struct {
            const char *key;
            int64_t got;
        } fields[] = {
            {"window_us", b->window_ns},         {"span_us", b->window_ns},
            {"compute_busy_us", b->compute_busy_ns}, {"comm_busy_us", b->comm_busy_ns},
            {"mem_busy_us", b->mem_busy_ns},     {"exposed_comm_us", b->exposed_comm_ns},
            {"exposed_mem_us", b->exposed_mem_ns}, {"idle_us", b->idle_ns},
            {"idle_us_within_span", b->idle_ns},
        };
        size_t k = 0, n = sizeof fields / sizeof *fields;
        while (k < n && !lw_json_key_is(j, fields[k].key))
            k++;
        n_compared++;
        if (k < n)
            assert_int_equal(fields[k].got, us(j));
        else if (lw_json_key_is(j, "gpu_ops"))
            assert_int_equal(n_gpu_ops, number(j));
        else
            fail_msg("truth.json has a figure this test does not know: %s", lw_json_key(j, NULL));
    }
}

static void check_comm_op(struct lw_json *j, const struct lw_comm_op *op)
{
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        n_compared++;
        if (lw_json_key_is(j, "op"))
            check_text(j, op->op);
        else if (lw_json_key_is(j, "kernel"))
            check_text(j, op->kernel);
        else if (lw_json_key_is(j, "dtype"))
            check_text(j, op->dtype);
        else if (lw_json_key_is(j, "stream"))
            assert_int_equal(op->stream, number(j));
        else if (lw_json_key_is(j, "launch_us"))
            assert_int_equal(op->launch_ns, us(j));
        else if (lw_json_key_is(j, "start_us"))
            assert_int_equal(op->start_ns, us(j));
        else if (lw_json_key_is(j, "dur_us"))
            assert_int_equal(op->dur_ns, us(j));
        else if (lw_json_key_is(j, "group_size"))
            assert_int_equal(op->group_size, number(j));
        else if (lw_json_key_is(j, "in_bytes") && lw_json_type(j) != LW_JSON_NULL)
            assert_int_equal(op->bytes, number(j));
    }
}

static void check_iteration(struct lw_json *j, const struct lw_iteration *it)
{
    bool by_launch = false;

    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "name")) {
            check_text(j, it->name);
        } else if (lw_json_key_is(j, "by_time")) {
            check_busy(j, &it->by_time, -1);
        } else if (lw_json_key_is(j, "by_launch")) {
            by_launch = true;
            check_busy(j, &it->by_launch, it->n_gpu_ops);
        } else if (lw_json_key_is(j, "n_comm")) {
            assert_int_equal(it->n_comm, number(j));
        } else if (lw_json_key_is(j, "comm_ops") && lw_json_enter(j, LW_JSON_ARRAY)) {
            int64_t k = 0;
            for (; lw_json_next(j); k++) {
                assert_true(k < it->n_comm);
                check_comm_op(j, &it->comm[k]);
            }
            assert_int_equal(k, it->n_comm);
        }
    }
    assert_int_equal(by_launch, it->n_gpu_ops > 0);
}

static void check_file(struct lw_json *j, const struct lw_trace *trace,
                       const struct lw_inspection *seen)
{
    bool whole = false;

    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "events"))
            assert_int_equal(trace->n_events, number(j));
        else if (lw_json_key_is(j, "gpu_ops"))
            assert_int_equal(seen->n_device_rows, number(j));
        else if (lw_json_key_is(j, "launch_resolved"))
            assert_int_equal(seen->n_resolved, number(j));
        else if (lw_json_key_is(j, "rank"))
            assert_int_equal(trace->rank, number(j));
        else if (lw_json_key_is(j, "world_size"))
            assert_int_equal(trace->world_size, number(j));
        else if (lw_json_key_is(j, "whole_gpu_span")) {
            whole = true;
            check_busy(j, &seen->whole, -1);
        } else if (lw_json_key_is(j, "iterations") && lw_json_enter(j, LW_JSON_ARRAY)) {
            int64_t k = 0;
            for (; lw_json_next(j); k++) {
                assert_true(k < seen->n_iterations);
                check_iteration(j, &seen->iterations[k]);
            }
            assert_int_equal(k, seen->n_iterations);
        }
    }
    assert_int_equal(whole, seen->has_device);
}

static void check_named(struct lw_json *j, const char *name)
{
    char path[512];
    struct traces_source s;
    struct lw_inspection seen;

    snprintf(path, sizeof path, "../shared/traces/%s", name);
    replay_read(&s, path);
    assert_int_equal(lw_inspect(&s.trace, NULL, &seen, NULL), LW_OK);
    print_message("%s\n", name);
    check_file(j, &s.trace, &seen);
    lw_inspection_free(&seen);
    traces_source_free(&s);
}

TEST(every_kineto_file_equals_truth_to_the_nanosecond)
{
    struct lw_input in;
    struct lw_json *j;
    struct lw_err err = {0};
    int n_files = 0;

    if (access(TRUTH, R_OK) != 0) {
        print_message("SKIP every Kineto file against truth: %s is absent\n", TRUTH);
        skip();
    }
    assert_int_equal(lw_input_read(TRUTH, 0, &in, &err), LW_OK);
    assert_int_equal(lw_json_open(TRUTH, in.text, in.len, &j, &err), LW_OK);
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j))
        if (lw_json_key_is(j, "files") && lw_json_enter(j, LW_JSON_OBJECT))
            while (lw_json_next(j)) {
                const char *name = lw_json_key(j, NULL);
                if (strncmp(name, "kineto/", 7) == 0) {
                    char copy[256];
                    snprintf(copy, sizeof copy, "%s", name);
                    check_named(j, copy);
                    n_files++;
                }
            }
    assert_int_equal(lw_json_done(j, &err), LW_OK);
    lw_json_close(j);
    lw_input_free(&in);
    assert_true(n_files >= 20);
    assert_true(n_compared > 1000);
}

FIGURES_TEST(ddp_resnet50_has_five_all_reduces_of_the_published_sizes)
{
    static const int64_t want[] = {8196000, 31502336, 26255360, 26550272, 9724160};
    const char *file = "../shared/traces/kineto/ddp_resnet50_2xA100_rank0.json.gz";
    struct traces_source s;

    if (access(file, R_OK) != 0) {
        print_message("SKIP the five all-reduces: %s is absent\n", file);
        skip();
    }
    replay_read(&s, file);
    assert_int_equal(lw_inspect(&s.trace, NULL, &i, NULL), LW_OK);
    assert_int_equal(i.n_iterations, 3);
    for (int64_t k = 0; k < i.n_iterations; k++) {
        int n = 0;
        for (int64_t c = 0; c < i.iterations[k].n_comm; c++)
            if (strcmp(i.iterations[k].comm[c].op, "allreduce") == 0) {
                assert_true(n < 5);
                assert_int_equal(i.iterations[k].comm[c].bytes, want[n++]);
            }
        assert_int_equal(n, 5);
    }
    traces_source_free(&s);
}
