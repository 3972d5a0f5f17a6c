/* Models on a device with round figures. */
#include "tests/lib/failing_alloc.h"
#include "tests/lib/traces/model_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/json/json.h"
#include "traces/models/hf_config.h"

struct lw_device model_device(void)
{
    struct lw_device d = {
        .kind = "round", .gemm_efficiency = {0.5, "test"}, .memory_bytes_per_s = {1e9, "test"}};

    d.peak_flops[LW_F32] = d.peak_flops[LW_BF16] = d.peak_flops[LW_F16] =
        (struct lw_figure){1e12, "test"};
    return d;
}

enum lw_status model_read_config(const char *text, const char **name,
                                 struct traces_model_shape *shape, struct lw_err *err)
{
    enum { SIZE = 4096 };
    static char padded[SIZE + LW_JSON_PADDING];
    struct lw_input in = {.name = "config.json", .text = padded, .len = strlen(text)};

    assert_in_range(in.len, 0, SIZE - 1);
    memset(padded, 0, sizeof padded);
    snprintf(padded, SIZE, "%s", text);
    *name = NULL;
    return traces_hf_config(&in, name, shape, err);
}

static struct lw_workload build(const char *name, const struct lw_device *device,
                                const struct traces_model_shape *shape)
{
    struct lw_workload w = {0};
    struct lw_err err = {0};

    if (traces_model_build(name, shape, device, &w, &err) != LW_OK)
        fail_msg("%s", err.msg);
    return w;
}

struct lw_workload model_build(const char *name, struct traces_model_shape shape)
{
    struct lw_device d = model_device();

    return build(name, &d, &shape);
}

static struct lw_workload kept[256];
static int n_kept;

struct lw_workload model_kept(const char *name, const struct lw_device *device,
                              struct traces_model_shape shape)
{
    struct lw_device round = model_device();

    assert_true(n_kept < 256);
    return kept[n_kept++] = build(name, device ? device : &round, &shape);
}

int model_forget(void **state)
{
    (void)state;
    while (n_kept > 0)
        lw_workload_free(&kept[--n_kept]);
    return 0;
}

double model_fullest_share(const struct lw_workload *w, int n)
{
    double of[64] = {0}, most = 0;

    for (int32_t i = 0; i < w->n_params; i++) {
        int least = 0;
        if (w->params[i].tied >= 0)
            continue;
        for (int k = 1; k < n; k++)
            least = of[k] < of[least] ? k : least;
        of[least] += (double)w->params[i].numel;
        most = of[least] > most ? of[least] : most;
    }
    return most / (double)lw_workload_numel(w, true);
}

void model_without_memory(const char *name, struct traces_model_shape shape)
{
    struct lw_device d = model_device();
    struct lw_workload w = {0};

    EACH_ALLOCATION_FAILS(2, traces_model_build(name, &shape, &d, &w, NULL), w,
                          lw_workload_free(&w));
}
