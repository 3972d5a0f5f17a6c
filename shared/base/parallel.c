/* Threads take numbers from a counter; after a failure no further number is handed out. Numbers go
 * out in order, so every number below one that failed was handed out and is finished before the
 * threads are joined: the lowest failure is the same in any order of completion. Progress is the
 * mean of the numbers' shares and is reported by one thread at a time. */
#include "shared/base/parallel.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { MOST_THREADS = 256 };

struct pool {
    const struct lw_parallel_work *work;
    pthread_mutex_t lock;
    int next, failed; /* lowest number that failed; n = none */
    struct lw_err err;
    double shares; /* sum over numbers */
};

struct reporter { /* of one number */
    struct pool *pool;
    double share;
};

static void report(void *ctx, const char *what, double share)
{
    struct reporter *r = ctx;
    struct pool *p = r->pool;

    pthread_mutex_lock(&p->lock);
    p->shares += share - r->share;
    r->share = share;
    lw_progress_report(p->work->progress, p->work->n == 1 ? what : p->work->what,
                       p->shares / p->work->n);
    pthread_mutex_unlock(&p->lock);
}

static int take_number(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    int i = p->failed < p->work->n ? p->work->n : p->next++;
    pthread_mutex_unlock(&p->lock);
    return i;
}

static void *run(void *ctx)
{
    struct pool *p = ctx;

    for (int i; (i = take_number(p)) < p->work->n;) {
        struct reporter r = {p, 0};
        struct lw_progress progress = {.report = report, .ctx = &r};
        struct lw_err err = {0};
        enum lw_status status = p->work->one(p->work->ctx, i, &progress, &err);
        report(&r, p->work->what, 1);
        pthread_mutex_lock(&p->lock);
        if (status != LW_OK && i < p->failed) {
            p->failed = i;
            p->err = err;
            p->err.code = status;
        }
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

int lw_n_cores(void)
{
    cpu_set_t set; /* of 1,024: on a larger machine the call fails */
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                         : sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 && n <= INT_MAX ? (int)n : 1;
}

enum lw_status lw_parallel(const struct lw_parallel_work *w, struct lw_err *err)
{
    struct pool p = {.work = w, .lock = PTHREAD_MUTEX_INITIALIZER, .failed = w->n};
    pthread_t threads[MOST_THREADS];
    int want = w->n_threads > 0 ? w->n_threads : lw_n_cores(), n = 0;

    want = want < w->n ? want : w->n;
    want = want < MOST_THREADS ? want : MOST_THREADS;
    while (n < want - 1 && pthread_create(&threads[n], NULL, run, &p) == 0)
        n++; /* fewer threads only take longer */
    run(&p);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    if (p.failed == w->n)
        return LW_OK;
    if (err)
        *err = p.err;
    return p.err.code;
}
