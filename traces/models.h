#ifndef LW_TRACES_MODELS_H
#define LW_TRACES_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/cluster.h"
#include "shared/err.h"
#include "shared/workload.h"

/* Parametric models: shapes in, a workload out. Times come from a roofline on one device: the
 * larger of flops / (peak * efficiency) and bytes / memory bandwidth, for forward, backward by
 * input and backward by weight. See docs/design/models.md. */
struct traces_model_shape { /* 0 = the model's default */
    int64_t batch;          /* samples of one micro-batch */
    int64_t layers, width;  /* mlp */
    int64_t image;          /* resnet50: pixels of a side */
};

struct traces_model {
    const char *name, *about;
    struct traces_model_shape defaults; /* a size that the model does not have is 0 here */
    enum lw_status (*build)(const struct traces_model_shape *shape, const struct lw_device *device,
                            struct lw_workload *w, struct lw_err *err);
};

/* Ends with name == NULL. */
extern const struct traces_model traces_models[];

/* LW_EINVAL: no such model, a size that it does not have or that is out of range, a device without
 * the figures of a roofline. */
enum lw_status traces_model_build(const char *name, const struct traces_model_shape *shape,
                                  const struct lw_device *device, struct lw_workload *w,
                                  struct lw_err *err);

/* --- for the models themselves ------------------------------------------------------------------
 */

/* One module's work: matrix flops and device memory traffic of each part. */
struct traces_cost {
    int64_t forward_flops, forward_bytes;
    int64_t input_flops, input_bytes;   /* backward by input; 0 and 0: not computed */
    int64_t weight_flops, weight_bytes; /* backward by weight */
};

struct traces_builder {
    struct lw_workload w;
    const struct lw_device *device;
    struct traces_model_shape shape; /* with defaults filled in */
    int32_t max_modules, max_params, max_buffers;
    bool no_memory;
    struct lw_module spare; /* takes what is set on a module that there was no memory for */
};

/* Room for so many of each; sticks in no_memory. */
void traces_builder_init(struct traces_builder *b, const char *name, int32_t max_modules,
                         int32_t max_params, int32_t max_buffers);
/* The next module in forward order: times by roofline, sizes unknown until set. */
struct lw_module *traces_builder_module(struct traces_builder *b, const struct traces_cost *cost,
                                        const char *name);
/* A parameter or buffer NAME.SUFFIX of the module added last. */
void traces_builder_param(struct traces_builder *b, const char *suffix, int64_t numel);
void traces_builder_buffer(struct traces_builder *b, const char *suffix, int64_t numel,
                           enum lw_dtype dtype);
void traces_builder_note(struct traces_builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Ready order and times, optimizer, provenance; checks the result and frees it on failure. */
enum lw_status traces_builder_finish(struct traces_builder *b, const char *producer,
                                     struct lw_workload *w, struct lw_err *err);

enum lw_status traces_build_mlp(const struct traces_model_shape *shape,
                                const struct lw_device *device, struct lw_workload *w,
                                struct lw_err *err);
enum lw_status traces_build_resnet50(const struct traces_model_shape *shape,
                                     const struct lw_device *device, struct lw_workload *w,
                                     struct lw_err *err);

#endif
