#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/device/kernel_time.h"
#include "traces/models/models.h"

/* What the models share: a workload that grows module by module. A module consists of kernels in
 * forward order; backward runs them in reverse, and the gradients of a kernel's parameters are
 * ready at its end. Parameters are registered after their kernel, in any order. */

enum { TRACES_N_LABELS = 1000 }; /* of models that classify images */

struct traces_builder {
    struct lw_workload w;
    const struct lw_device *device;
    struct traces_model_shape shape; /* with defaults filled in */
    enum lw_dtype dtype;
    int64_t item;              /* bytes of one element of it */
    int64_t wide; /* of a parameter, and of what blocks add up: item, or with autocast 4 */
    int32_t max_modules, max_params, max_buffers, n_kernels;
    int64_t kernels_capacity;
    struct lw_kernel *kernels; /* goes with finish */
    bool again, unrepeated, attention; /* kernels added now have these flags */
    int64_t gathers;           /* the next kernel has it gathered */
    bool no_memory;
    struct lw_module spare;    /* take what is set on things that there was no memory for */
    struct lw_param spare_param;
};

void traces_builder_drop(struct traces_builder *b); /* in place of finish */
/* Zeroes b and takes shape and device; dtype must be known. Room for so many of each; running
 * out of memory sticks in no_memory until finish. */
void traces_builder_init(struct traces_builder *b, const char *name,
                         const struct traces_model_shape *shape, const struct lw_device *device);
void traces_builder_room(struct traces_builder *b, int64_t max_modules, int64_t max_params,
                         int64_t max_buffers);
/* The next module in forward order, without work; sizes are unknown until set. */
struct lw_module *traces_builder_module(struct traces_builder *b, const char *name);
struct lw_module *traces_builder_last(struct traces_builder *b); /* the module added last */
/* One more kernel of the module added last; returns its number in the module, for parameters. */
int32_t traces_builder_kernel(struct traces_builder *b, const struct lw_kernel *kernel);
/* The tensor group gathers so many bytes before the next kernel, or sums them after the last one
 * (struct lw_kernel). */
void traces_builder_gathers(struct traces_builder *b, int64_t bytes);
void traces_builder_sums(struct traces_builder *b, int64_t bytes);
/* The last kernel, a product, is of such a linear layer. */
void traces_builder_layer(struct traces_builder *b, enum lw_kernel_layer layer);
#define TRACES_KERNEL(b, ...) traces_builder_kernel(b, &(struct lw_kernel){__VA_ARGS__})
/* One that moves memory: bytes of forward, of the gradients of input and of weights; then members
 * of struct lw_kernel. */
#define TRACES_TRAFFIC(b, f, i, w, ...) TRACES_KERNEL(b, .bytes = {f, i, w}, __VA_ARGS__)
/* A parameter of a kernel of the module added last: rows x columns elements, rows being its first
 * dimension (out features of a linear layer, out channels of a convolution); a vector has 1
 * column. */
struct lw_param *traces_builder_param(struct traces_builder *b, int32_t kernel, int64_t rows,
                                      int64_t columns, enum lw_tp_split split, const char *name,
                                      ...) __attribute__((format(printf, 6, 7)));
void traces_builder_buffer(struct traces_builder *b, int64_t numel, enum lw_dtype dtype,
                           const char *name, ...) __attribute__((format(printf, 4, 5)));
void traces_builder_note(struct traces_builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Ready order and times, optimizer, provenance; checks the result and frees all on failure. */
enum lw_status traces_builder_finish(struct traces_builder *b, const char *producer,
                                     struct lw_workload *w, struct lw_err *err);
