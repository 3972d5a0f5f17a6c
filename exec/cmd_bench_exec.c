/* lapwing bench dispatch, by-hand, overlap: what the executor itself costs. */
#include "exec/cmd_bench_exec.h"

#include <string.h>

#include "exec/calibrate/bench_exec.h"

bool cmd_bench_exec_knows(const char *name)
{
    return strcmp(name, "dispatch") == 0 || strcmp(name, "by-hand") == 0 ||
           strcmp(name, "overlap") == 0;
}

static void print_dispatch(const struct exec_bench_dispatch *d, enum lw_format format)
{
    struct lw_jsonout o = {.file = stdout};

    if (format == LW_FORMAT_TEXT) {
        printf("empty ops on one stream, %d in each of %d steps, threads backend\n", d->n_ops,
               d->n_steps);
        printf("  from one start to the next   %8.1f ns median, %.1f ns at 90 %%\n", d->median_ns,
               d->p90_ns);
        printf("  whole run, giving included   %8.1f ns per op\n", d->whole_ns);
    } else if (format == LW_FORMAT_CSV) {
        printf("name,n_ops,n_steps,median_ns,p90_ns,whole_ns\ndispatch,%d,%d,%.1f,%.1f,%.1f\n",
               d->n_ops, d->n_steps, d->median_ns, d->p90_ns, d->whole_ns);
    } else {
        lw_jsonout_object(&o, NULL);
        LW_JSON(&o, "name", "dispatch", "n_ops", d->n_ops, "n_steps", d->n_steps,
                "median_ns", lw_decimals(d->median_ns, 1), "p90_ns", lw_decimals(d->p90_ns, 1),
                "whole_ns", lw_decimals(d->whole_ns, 1));
        lw_jsonout_end(&o);
    }
}

static void print_by_hand(const struct exec_bench_by_hand *b, enum lw_format format)
{
    struct lw_jsonout o = {.file = stdout};

    if (format == LW_FORMAT_TEXT) {
        printf(
            "a step of %d kernels of %.0f us and all-reduces of %lld bytes on 2 ranks, %d pairs of "
            "%d steps\n",
            b->n_ops, (double)b->work_ns * 1e-3, (long long)b->bytes, b->n_pairs, b->n_steps);
        printf("  executor %.1f us, the same calls by hand %.1f us\n", b->executor_ns * 1e-3,
               b->hand_ns * 1e-3);
        printf("  ratio %.4f, 95 %% interval %.4f to %.4f\n", b->ratio, b->low, b->high);
    } else if (format == LW_FORMAT_CSV) {
        printf("name,n_pairs,executor_ns,hand_ns,ratio,low,high\nby-hand,%d,%.0f,%.0f,%.5f,%.5f,%."
               "5f\n",
               b->n_pairs, b->executor_ns, b->hand_ns, b->ratio, b->low, b->high);
    } else {
        lw_jsonout_object(&o, NULL);
        LW_JSON(&o, "name", "by-hand", "n_pairs", b->n_pairs, "n_ops", b->n_ops,
                "n_steps", b->n_steps, "bytes", b->bytes, "work_ns", b->work_ns,
                "executor_ns", lw_decimals(b->executor_ns, 0),
                "hand_ns", lw_decimals(b->hand_ns, 0), "ratio", lw_decimals(b->ratio, 5),
                "ratio_low", lw_decimals(b->low, 5), "ratio_high", lw_decimals(b->high, 5));
        lw_jsonout_end(&o);
    }
}

static void print_overlap(const struct exec_bench_overlap *b, enum lw_format format)
{
    struct lw_jsonout o = {.file = stdout};

    if (format == LW_FORMAT_TEXT) {
        printf("%d all-reduces of %lld bytes on %d ranks, each beside a kernel that sleeps\n", b->n,
               (long long)b->bytes, b->n_ranks);
        printf("  all-reduce %.1f us alone, %.1f us beside a kernel of %.1f us (medians)\n",
               (double)b->alone_ns * 1e-3, (double)b->beside_ns * 1e-3, (double)b->work_ns * 1e-3);
        printf("  hidden %.1f %% of an all-reduce (median)\n", 100 * b->hidden);
    } else if (format == LW_FORMAT_CSV) {
        printf(
            "name,n,bytes,alone_ns,beside_ns,work_ns,hidden\noverlap,%d,%lld,%lld,%lld,%lld,%.5f\n",
            b->n, (long long)b->bytes, (long long)b->alone_ns, (long long)b->beside_ns,
            (long long)b->work_ns, b->hidden);
    } else {
        lw_jsonout_object(&o, NULL);
        LW_JSON(&o, "name", "overlap", "n", b->n, "bytes", b->bytes, "alone_ns", b->alone_ns,
                "beside_ns", b->beside_ns, "work_ns", b->work_ns,
                "hidden", lw_decimals(b->hidden, 5));
        lw_jsonout_end(&o);
    }
}

enum lw_status cmd_bench_exec(const char *name, enum lw_format format, struct lw_err *err)
{
    struct exec_bench_dispatch d;
    struct exec_bench_by_hand b;
    struct exec_bench_overlap v;
    struct lw_progress_bar bar;

    if (strcmp(name, "overlap") == 0) {
        LW_TRY(exec_bench_overlap(&v, err));
        print_overlap(&v, format);
        return LW_OK;
    }
    if (strcmp(name, "dispatch") == 0) {
        LW_TRY(exec_bench_dispatch(&d, err));
        print_dispatch(&d, format);
        return LW_OK;
    }
    struct lw_progress progress = lw_progress_bar_begin(&bar, false);
    progress.stop = lw_catch_signals();
    enum lw_status s = exec_bench_by_hand(&progress, &b, err);
    lw_progress_bar_end(&bar);
    if (s == LW_OK)
        print_by_hand(&b, format);
    return s;
}
