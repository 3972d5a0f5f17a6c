/* Measuring the executor. The calls by hand are what a careful programmer would write for this
 * one step: a compute and a communication thread per rank, on one core, communication at the
 * better nice level, a counter between them, and the backend's own all-reduce. No queues, no
 * table of ops, no stamps but one at each end. What the executor takes beyond that is its price. */
#include "exec/calibrate/bench_exec.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exec/calibrate/calibrate_plan.h"
#include "exec/run/run.h"
#include "exec/cpu/clock_wait.h"
#include "exec/cpu/thread_group.h"
#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/timeline/timeline.h"
#include "shared/numbers/median.h"

enum { RANKS = 2, OPS = 8, STEPS = 7, WARMUP = 2, PAIRS = 30, BYTES = 256 * 1024, NICE = 19 };
enum { EMPTY_OPS = 2000, EMPTY_STEPS = 10 };
enum { OVERLAP_OPS = 5, OVERLAP_STEPS = 10 };
#define WORK_NS INT64_C(600000)
#define OVERLAP_BYTES (INT64_C(25) << 20)
#define KERNEL_LENGTH 1.5 /* beside an all-reduce, in all-reduces */

static double pick(double *v, int64_t n, int64_t i)
{
    lw_sort(v, n, lw_compare_double);
    return v[i];
}

static struct lw_exec_options options(enum exec_compute compute, int32_t n_steps)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = compute;
    o.verify = false;
    o.n_steps = n_steps;
    o.n_warmup = WARMUP;
    return o;
}

/* --- dispatch --------------------------------------------------------------------------------- */

static enum lw_status gaps(const struct lw_timeline *t, struct exec_bench_dispatch *d,
                           struct lw_err *err)
{
    double *v = lw_calloc((size_t)t->n + 1, sizeof *v);
    int64_t n = 0;

    if (!v)
        return lw_fail_nomem(err);
    for (int64_t i = 1; i < t->n; i++)
        if (t->step[i] >= WARMUP && t->step[i] == t->step[i - 1])
            v[n++] = (double)(t->start[i] - t->start[i - 1]) / LW_PS_PER_NS;
    d->median_ns = pick(v, n, n / 2);
    d->p90_ns = pick(v, n, n * 9 / 10);
    lw_free(v);
    return LW_OK;
}

enum lw_status exec_bench_dispatch(struct exec_bench_dispatch *d, struct lw_err *err)
{
    struct lw_exec_options o = options(EXEC_COMPUTE_SPIN, EMPTY_STEPS);
    struct lw_exec_result r = {0};
    struct lw_plan plan;

    *d = (struct exec_bench_dispatch){.n_ops = EMPTY_OPS, .n_steps = EMPTY_STEPS};
    LW_TRY(exec_plan_kernels(1, EMPTY_OPS, 0, &plan, err));
    enum lw_status s = lw_exec_run(&plan, &o, &r, err);
    if (s == LW_OK)
        s = gaps(&r.timeline, d, err);
    d->whole_ns = r.wall_s * 1e9 / (EMPTY_OPS * (double)(EMPTY_STEPS + WARMUP));
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

/* --- by hand ---------------------------------------------------------------------------------- */

struct hand;

struct hand_rank {
    struct hand *hand;
    int32_t rank;
    pthread_t compute, comm;
    bool has_compute, has_comm;
    float *mem;
    struct exec_counter ready, reduced; /* ops so far */
    int64_t start_ns[STEPS + WARMUP], end_ns[STEPS + WARMUP];
};

struct hand {
    struct exec_group *group;
    struct exec_counter released, done; /* steps; ranks that are through with one */
    atomic_bool stop;
    bool lifts;
    struct hand_rank ranks[RANKS];
};

static void settle(const struct hand_rank *r, bool comm)
{
    cpu_set_t all, one;
    int32_t left = r->rank;
    id_t self = (id_t)syscall(SYS_gettid);

    prctl(PR_SET_TIMERSLACK, 1L, 0, 0, 0);
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) == 0) {
        left %= CPU_COUNT(&all);
        for (int c = 0; c < CPU_SETSIZE; c++)
            if (CPU_ISSET(c, &all) && left-- == 0)
                CPU_SET(c, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    }
    if (comm && setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) - NICE) == 0)
        return;
    if (!comm && !r->hand->lifts)
        setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + NICE);
}

static void *hand_compute(void *arg)
{
    struct hand_rank *r = arg;
    struct hand *h = r->hand;
    uint32_t n = 0;

    settle(r, false);
    for (uint32_t step = 0; step < STEPS + WARMUP; step++) {
        if (!exec_counter_wait(&h->released, step + 1, INT64_MAX, &h->stop))
            return NULL;
        int64_t at = r->start_ns[step] = exec_now_ns();
        for (int i = 0; i < OPS; i++) {
            exec_spin_until(at + WORK_NS, &h->stop);
            at = exec_now_ns();
            exec_counter_set(&r->ready, ++n);
        }
        if (!exec_counter_wait(&r->reduced, n, INT64_MAX, &h->stop))
            return NULL;
        r->end_ns[step] = exec_now_ns();
        exec_counter_add(&h->done, 1);
    }
    return NULL;
}

static void *hand_comm(void *arg)
{
    struct hand_rank *r = arg;
    struct hand *h = r->hand;
    struct exec_message m = {r->mem, BYTES / 4, LW_F32, -1};
    int64_t all_in;

    settle(r, true);
    for (uint32_t n = 1; n <= OPS * (STEPS + WARMUP); n++) {
        if (!exec_counter_wait(&r->ready, n, INT64_MAX, &h->stop) ||
            exec_group_run(h->group, r->rank, LW_OP_ALL_REDUCE, &m, &all_in, NULL) != LW_OK)
            return NULL;
        exec_counter_set(&r->reduced, n);
    }
    return NULL;
}

static int start_rank(struct hand_rank *r)
{
    int bad = pthread_create(&r->comm, NULL, hand_comm, r);

    r->has_comm = !bad;
    if (!bad)
        bad = pthread_create(&r->compute, NULL, hand_compute, r);
    r->has_compute = !bad && r->has_comm;
    return bad;
}

static void join_all(struct hand *h)
{
    for (int32_t i = 0; i < RANKS; i++) {
        if (h->ranks[i].has_compute)
            pthread_join(h->ranks[i].compute, NULL);
        if (h->ranks[i].has_comm)
            pthread_join(h->ranks[i].comm, NULL);
    }
}

static double median_step(const struct hand *h)
{
    double v[STEPS];

    for (int step = WARMUP; step < STEPS + WARMUP; step++) {
        int64_t start = h->ranks[0].start_ns[step], end = h->ranks[0].end_ns[step];
        for (int32_t i = 1; i < RANKS; i++) {
            start = h->ranks[i].start_ns[step] < start ? h->ranks[i].start_ns[step] : start;
            end = h->ranks[i].end_ns[step] > end ? h->ranks[i].end_ns[step] : end;
        }
        v[step - WARMUP] = (double)(end - start);
    }
    return pick(v, STEPS, STEPS / 2);
}

static bool may_lift(void)
{
    struct rlimit limit;
    return geteuid() == 0 || (getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur >= 20 + NICE);
}

static enum lw_status run_hand(struct hand *h, double *step_ns, struct lw_err *err)
{
    int bad = 0;

    for (int32_t i = 0; i < RANKS && !bad; i++)
        bad = start_rank(&h->ranks[i]);
    for (uint32_t step = 0; step < STEPS + WARMUP && !bad; step++) {
        exec_counter_set(&h->released, step + 1);
        exec_counter_wait(&h->done, (step + 1) * RANKS, INT64_MAX, &h->stop);
    }
    if (bad)
        atomic_store(&h->stop, true);
    join_all(h);
    if (bad)
        return lw_fail(err, LW_EIO, "starting a thread: %s", strerror(bad));
    *step_ns = median_step(h);
    return LW_OK;
}

static enum lw_status by_hand(double *step_ns, struct lw_err *err)
{
    struct exec_shape shape = {LW_REDUCER_RING, RANKS, 1};
    struct hand *h = lw_calloc(1, sizeof *h);
    float *mem = lw_calloc(RANKS, BYTES);
    enum lw_status s = h && mem ? LW_OK : lw_fail_nomem(err);

    if (s == LW_OK) {
        h->lifts = may_lift();
        for (int32_t i = 0; i < RANKS; i++) {
            h->ranks[i].hand = h;
            h->ranks[i].rank = i;
            h->ranks[i].mem = mem + i * (BYTES / 4);
        }
        s = exec_group_new(&shape, (struct exec_pace){0}, &h->stop, NULL, &h->group, err);
    }
    if (s == LW_OK) {
        s = run_hand(h, step_ns, err);
        exec_group_free(h->group);
    }
    lw_free(mem);
    lw_free(h);
    return s;
}

static enum lw_status by_executor(const struct lw_plan *plan, double *step_ns, struct lw_err *err)
{
    struct lw_exec_options o = options(EXEC_COMPUTE_SPIN, STEPS);
    struct lw_exec_result r = {0};
    struct lw_summary m = {0};

    enum lw_status s = lw_exec_run(plan, &o, &r, err);
    if (s == LW_OK)
        s = lw_timeline_summarize(&r.timeline, plan, WARMUP, &m, err);
    *step_ns = (double)m.step / LW_PS_PER_NS;
    lw_summary_free(&m);
    lw_exec_result_free(&r);
    return s;
}

enum lw_status exec_bench_by_hand(const struct lw_progress *progress, struct exec_bench_by_hand *b,
                                  struct lw_err *err)
{
    double ratio[PAIRS], executor[PAIRS], hand[PAIRS];
    enum lw_status s = LW_OK;
    struct lw_plan plan;

    LW_TRY(exec_plan_overlap(RANKS, BYTES, OPS, WORK_NS * LW_PS_PER_NS, &plan, err));
    for (int i = 0; i < PAIRS && s == LW_OK; i++) {
        lw_progress_report(progress, "measuring", (double)i / PAIRS);
        if (lw_progress_stopped(progress)) { /* the interval is that of all pairs */
            s = lw_fail(err, LW_EFAILED, "interrupted after %d of %d pairs: nothing is kept", i,
                        PAIRS);
            break;
        }
        s = i % 2 ? by_hand(&hand[i], err) : by_executor(&plan, &executor[i], err);
        if (s == LW_OK)
            s = i % 2 ? by_executor(&plan, &executor[i], err) : by_hand(&hand[i], err);
        if (s == LW_OK)
            ratio[i] = executor[i] / hand[i];
    }
    lw_plan_free(&plan);
    if (s != LW_OK)
        return s;
    *b = (struct exec_bench_by_hand){.n_pairs = PAIRS, .n_ops = OPS, .n_steps = STEPS,
                                     .bytes = BYTES, .work_ns = WORK_NS};
    b->executor_ns = pick(executor, PAIRS, PAIRS / 2);
    b->hand_ns = pick(hand, PAIRS, PAIRS / 2);
    b->ratio = (pick(ratio, PAIRS, PAIRS / 2 - 1) + ratio[PAIRS / 2]) / 2;
    b->low = ratio[9];
    b->high = ratio[20];
    return LW_OK;
}

/* --- overlap ---------------------------------------------------------------------------------- */

/* How much of an all-reduce compute hides. Compute sleeps, so that a core is not a reason for
 * waiting: what is not hidden is the executor's doing. */
struct looked {
    double *time_ns, *share; /* [n], [n_beside]: of those with a kernel beside them */
    int64_t n, n_beside;
};

/* Of the all-reduces after warm-up: their times, and the share of each in which the kernel after it
 * ran. Rows of a rank and step are in the order of the program. */
static void look(const struct lw_plan *plan, const struct lw_timeline *t, struct looked *l)
{
    for (int64_t i = 0; i + 1 < t->n; i++) {
        if (t->step[i] < WARMUP || plan->ops[t->op[i]].kind != LW_OP_ALL_REDUCE)
            continue;
        double time = (double)(t->end[i] - t->start[i]);
        l->time_ns[l->n++] = time / LW_PS_PER_NS;
        if (plan->ops[t->op[i + 1]].work_ps <= 0)
            continue; /* the empty kernel after the last */
        lw_ps from = t->start[i] > t->start[i + 1] ? t->start[i] : t->start[i + 1];
        lw_ps to = t->end[i] < t->end[i + 1] ? t->end[i] : t->end[i + 1];
        l->share[l->n_beside++] = to > from ? (double)(to - from) / time : 0;
    }
}

static enum lw_status medians(const struct lw_plan *plan, const struct lw_timeline *t,
                              double *time_ns, double *hidden, struct lw_err *err)
{
    struct looked l = {lw_calloc((size_t)t->n + 1, sizeof *l.time_ns),
                       lw_calloc((size_t)t->n + 1, sizeof *l.share), 0, 0};
    bool there = l.time_ns && l.share;

    if (there) {
        look(plan, t, &l);
        *time_ns = l.n > 0 ? pick(l.time_ns, l.n, l.n / 2) : 0;
        *hidden = l.n_beside > 0 ? pick(l.share, l.n_beside, l.n_beside / 2) : 0;
    }
    lw_free(l.time_ns);
    lw_free(l.share);
    return there ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status run(int32_t n, lw_ps work, double *time_ns, double *hidden,
                          struct lw_err *err)
{
    struct lw_exec_options o = options(EXEC_COMPUTE_SLEEP, OVERLAP_STEPS);
    struct lw_exec_result r = {0};
    struct lw_plan plan;

    LW_TRY(exec_plan_overlap(RANKS, OVERLAP_BYTES, n, work, &plan, err));
    enum lw_status s = lw_exec_run(&plan, &o, &r, err);
    if (s == LW_OK)
        s = medians(&plan, &r.timeline, time_ns, hidden, err);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

enum lw_status exec_bench_overlap(struct exec_bench_overlap *b, struct lw_err *err)
{
    double alone = 0, beside = 0, unused;

    LW_TRY(run(1, LW_PS_PER_MS, &alone, &unused, err));
    *b = (struct exec_bench_overlap){.n_ranks = RANKS,
                                     .n = (OVERLAP_OPS - 1) * OVERLAP_STEPS * RANKS,
                                     .bytes = OVERLAP_BYTES,
                                     .alone_ns = (int64_t)alone,
                                     .work_ns = (int64_t)(alone * KERNEL_LENGTH)};
    LW_TRY(run(OVERLAP_OPS, lw_ns_to_ps(b->work_ns), &beside, &b->hidden, err));
    b->beside_ns = (int64_t)beside;
    return LW_OK;
}
