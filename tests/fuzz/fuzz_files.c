/* Arbitrary bytes as each of Lapwing's own files. What is accepted is written, and must be read
 * back: a file that can be read is one that can be kept. Strategy files are only read: users write
 * them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/device/file_kernels.h"
#include "shared/files/files.h"
#include "shared/framework/framework.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(enum lw_status s, const struct lw_err *err)
{
    if (s != LW_OK) {
        fprintf(stderr, "written, but not read back: %s\n", err->msg);
        abort();
    }
}

static void try_plan(const char *in, const char *out)
{
    struct lw_plan p, q;
    struct lw_err err = {0};

    if (lw_plan_read(in, true, &p, &err) != LW_OK)
        return;
    (void)lw_plan_check(&p, &err);
    require(lw_plan_write(&p, out, &err), &err);
    require(lw_plan_read(out, true, &q, &err), &err);
    lw_plan_free(&p);
    lw_plan_free(&q);
}

/* On a device with figures for shapes, for groups of any size. */
static void time_kernels(struct lw_workload *w)
{
    static const struct lw_kernel_groups groups = {.tp = 4096, .cp = 3, .ep = 65536,
                                                   .sequence_parallel = true};
    static struct lw_cluster c;
    const struct lw_device *const d[2] = {&c.device, NULL};
    const struct lw_kernel_rates rates = {.host_op_ps = LW_PS_PER_S};
    struct lw_measured_modules measured;
    struct lw_err err = {0};

    if (!c.name)
        require(lw_cluster_find("dgx-h100", &c, &err), &err);
    if (w->n_kernels == 0)
        return;
    require(lw_kernels_take(w, d, &rates, &measured, &err), &err);
    (void)lw_kernels_retime(w, &c.device, &rates, &groups, &err);
}

static void try_workload(const char *in, const char *out)
{
    struct lw_workload w, r;
    struct lw_err err = {0};

    if (lw_workload_read(in, &w, &err) != LW_OK)
        return;
    require(lw_workload_write(&w, out, &err), &err);
    require(lw_workload_read(out, &r, &err), &err);
    time_kernels(&r);
    lw_workload_free(&w);
    lw_workload_free(&r);
}

static void try_cluster(const char *in, const char *out)
{
    struct lw_cluster c, r;
    struct lw_err err = {0};

    if (lw_cluster_read(in, &c, &err) != LW_OK)
        return;
    require(lw_cluster_write(&c, out, &err), &err);
    require(lw_cluster_read(out, &r, &err), &err);
    lw_cluster_free(&c);
    lw_cluster_free(&r);
}

static void try_framework(const char *in, const char *out)
{
    struct lw_framework f, r;
    struct lw_err err = {0};

    if (lw_framework_read(in, &f, &err) != LW_OK)
        return;
    require(lw_framework_write(&f, out, &err), &err);
    require(lw_framework_read(out, &r, &err), &err);
    lw_framework_free(&f);
    lw_framework_free(&r);
}

static void try_strategy(const char *in)
{
    struct lw_arena arena = {0};
    struct lw_strategy s;
    struct lw_err err = {0};

    (void)lw_strategy_read(in, &arena, &s, &err);
    lw_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char in[64], out[64], kind[16];
    struct lw_err err = {0};
    int fd = memfd_create("fuzz", 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(in, sizeof in, "/proc/self/fd/%d", fd);
    snprintf(out, sizeof out, "/tmp/lapwing-fuzz-%d.json", (int)getpid());
    (void)lw_file_kind(in, kind, &err);
    try_plan(in, out);
    try_workload(in, out);
    try_cluster(in, out);
    try_framework(in, out);
    try_strategy(in);
    unlink(out);
    close(fd);
    return 0;
}
