/* `lapwing bench inspect` and `bench nsys`: the whole command, measured from outside, so that what
 * it does beside reading counts too. */
#include "traces/inspect/bench_inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/sort.h"
#include "shared/base/temp_names.h"
#include "shared/numbers/order.h"
#include "shared/text/table.h"
#include "traces/nsys/nsys_example.h"

enum { N_RUNS = 3 };

struct speed {
    double user_s, sys_s, wall_s;
    int64_t peak_rss_bytes;
};

static void run_in_child(const char *file)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0 && dup2(null, STDOUT_FILENO) >= 0)
        execl("/proc/self/exe", "lapwing", "inspect", file, (char *)NULL);
    _exit(127);
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static enum lw_status run_once(const char *file, struct speed *out, struct lw_err *err)
{
    struct rusage u;
    int status = 0;
    double began = lw_now_s();
    pid_t child = fork(), ended = -1;

    if (child == 0)
        run_in_child(file);
    while (child > 0 && (ended = wait4(child, &status, 0, &u)) < 0 && errno == EINTR)
        ;
    if (ended != child)
        return lw_fail(err, LW_EIO, "inspect %s: %s", file, strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return lw_fail(err, LW_EFAILED, "'lapwing inspect %s' failed: run it to see why", file);
    *out = (struct speed){seconds(u.ru_utime), seconds(u.ru_stime), lw_now_s() - began,
                          (int64_t)u.ru_maxrss * 1024};
    return LW_OK;
}

LW_COMPARATOR(by_time, struct speed, a->user_s + a->sys_s, b->user_s + b->sys_s)

static enum lw_status measure(const char *file, struct speed *out, struct lw_err *err)
{
    struct speed runs[N_RUNS];

    for (int i = 0; i < N_RUNS; i++)
        LW_TRY(run_once(file, &runs[i], err));
    lw_sort(runs, N_RUNS, by_time);
    *out = runs[N_RUNS / 2];
    return LW_OK;
}

/* n_kernels 0: not known, and not shown. */
static enum lw_status print(const char *name, int64_t bytes, int64_t n_kernels,
                            const struct speed *s, enum lw_format format, struct lw_err *err)
{
    static const char *const text[] = {"bench", ">file", ">kernels", ">user s", ">sys s", ">wall s",
                                       ">MB/s", ">kernels/s", ">peak memory", ">of file"};
    static const char *const machine[] = {"bench", "file_bytes", "n_kernels", "user_s", "sys_s",
                                          "wall_s", "mb_per_s", "kernels_per_s", "peak_rss_bytes",
                                          "memory_multiple"};
    double cpu = s->user_s + s->sys_s, per_s = cpu > 0 ? 1 / cpu : 0;
    double mb_per_s = (double)bytes * per_s / 1e6, kernels_per_s = (double)n_kernels * per_s;
    double multiple = (double)s->peak_rss_bytes / (double)bytes;

    if (format == LW_FORMAT_JSON) {
        struct lw_jsonout o = {.file = stdout};
        lw_jsonout_object(&o, NULL);
        LW_JSON(&o, "name", name, "file_bytes", bytes, "n_kernels", n_kernels, "user_s",
                lw_decimals(s->user_s, 6), "sys_s", lw_decimals(s->sys_s, 6), "wall_s",
                lw_decimals(s->wall_s, 6), "mb_per_s", lw_decimals(mb_per_s, 1), "kernels_per_s",
                lw_decimals(kernels_per_s, 0), "peak_rss_bytes", s->peak_rss_bytes,
                "memory_multiple", lw_decimals(multiple, 3));
        lw_jsonout_end(&o);
        return LW_OK;
    }
    bool csv = format == LW_FORMAT_CSV;
    struct lw_table *t = lw_table_new(10, csv ? machine : text);
    LW_CELLS(t, name, LW_BYTES_OR_COUNT(bytes, csv), n_kernels, lw_decimals(s->user_s, 3),
             lw_decimals(s->sys_s, 3), lw_decimals(s->wall_s, 3), lw_decimals(mb_per_s, 1),
             lw_decimals(kernels_per_s, 0), LW_BYTES_OR_COUNT(s->peak_rss_bytes, csv));
    lw_table_cell(t, csv ? "%.3f" : "%.3f x", multiple);
    return lw_table_end(t, stdout, csv ? LW_TABLE_CSV : 0, err);
}

static enum lw_status bench(const char *name, const char *file, int64_t n_kernels,
                            enum lw_format format, struct lw_err *err)
{
    struct speed s;
    struct stat st;

    if (stat(file, &st) != 0)
        return lw_fail(err, LW_EIO, "%s: cannot open: %s", file, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return lw_fail(err, LW_EIO, "%s: give a file that holds something", file);
    LW_TRY(measure(file, &s, err));
    return print(name, (int64_t)st.st_size, n_kernels, &s, format, err);
}

enum lw_status traces_bench_inspect_print(const char *file, enum lw_format format,
                                          struct lw_err *err)
{
    return bench("inspect", file, 0, format, err);
}

enum lw_status traces_bench_nsys_print(int64_t n_kernels, enum lw_format format,
                                       struct lw_err *err)
{
    const char *tmp = getenv("TMPDIR");
    char file[512];

    snprintf(file, sizeof file, "%s/lapwing-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    int fd = mkstemp(file);
    if (fd < 0)
        return lw_fail(err, LW_EIO, "%s: %s", file, strerror(errno));
    close(fd);
    lw_temp_note(file);
    enum lw_status status = lw_nsys_example(file, n_kernels, err);
    if (status == LW_OK)
        status = bench("nsys", file, n_kernels, format, err);
    unlink(file);
    lw_temp_forget(file);
    return status;
}
