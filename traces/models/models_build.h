#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/device/device_time.h"
#include "traces/models/models.h"

/* What the models share: a workload that grows module by module. A module consists of parts, one
 * for each kernel or few, in forward order; backward runs them in reverse, and the gradients of a
 * part's parameters are ready at its end. Parameters are registered in any order. */

enum { TRACES_N_LABELS = 1000 }; /* of models that classify images */

/* One part's work: matrix flops and device memory traffic of each direction. */
struct traces_cost {
    int64_t forward_flops, forward_bytes;
    int64_t input_flops, input_bytes;   /* backward by input; 0 and 0: not computed */
    int64_t weight_flops, weight_bytes; /* backward by weight */
    bool whole;                         /* every rank of a tensor group does all of it */
    enum lw_tp_split split;             /* of a linear layer's weights */
    bool again;                         /* done once more with selective recomputation */
    /* The same by shape, as one rank of the tensor group has it, for devices with figures for
     * shapes; batch 0: no product, no attention. FLOPs and bytes above are of the whole group. */
    struct lw_product forward, input, weight;
    struct lw_product second_input;     /* kept where it is timed with `input`, as one */
    struct lw_attention attention;
    int32_t n_forward, n_backward;      /* kernels launched; 0 = one where there is work */
};

struct traces_part {
    int32_t module;
    lw_ps backward_ps;
};

/* A product of a module, in the order of the forward. */
struct traces_product {
    int32_t module, phase, product; /* enum lw_product_phase; index into w.products */
};

/* Kernels that a module launches, for the host's time. */
struct traces_launches {
    int32_t n_forward, n_backward;
};

struct traces_builder {
    struct lw_workload w;
    const struct lw_device *device;
    struct traces_model_shape shape; /* with defaults filled in */
    enum lw_dtype dtype;
    int64_t item;              /* bytes of one element of it */
    int32_t max_modules, max_params, max_buffers, n_parts;
    int64_t parts_capacity;
    struct traces_part *parts; /* goes with finish */
    int64_t products_capacity, uses_capacity, n_uses;
    struct lw_product *products;    /* those that are different; goes with finish */
    struct traces_product *uses;    /* goes with finish */
    struct lw_arena scratch;   /* of the two; goes with finish */
    int32_t *part_of;          /* [max_params] */
    struct traces_launches *launches; /* [max_modules] */
    bool again;                /* parts added now are done once more with selective recomputation */
    bool no_memory;
    struct lw_module spare;    /* take what is set on things that there was no memory for */
    struct lw_param spare_param;
};

/* Zeroes b and takes shape and device; dtype must be known. Room for so many of each; running
 * out of memory sticks in no_memory until finish. */
void traces_builder_init(struct traces_builder *b, const char *name,
                         const struct traces_model_shape *shape, const struct lw_device *device);
void traces_builder_room(struct traces_builder *b, int64_t max_modules, int64_t max_params,
                         int64_t max_buffers);
/* The next module in forward order, without work; sizes are unknown until set. */
struct lw_module *traces_builder_module(struct traces_builder *b, const char *name);
struct lw_module *traces_builder_last(struct traces_builder *b); /* the module added last */
/* One more part of the module added last; returns its number, for parameters. */
int32_t traces_builder_part(struct traces_builder *b, const struct traces_cost *cost);
#define TRACES_PART(b, ...) traces_builder_part(b, &(struct traces_cost){__VA_ARGS__})
/* A parameter of a part: rows x columns elements, rows being its first dimension (out features of a
 * linear layer, out channels of a convolution); a vector has 1 column. */
struct lw_param *traces_builder_param(struct traces_builder *b, int32_t part, int64_t rows,
                                      int64_t columns, enum lw_tp_split split, const char *name,
                                      ...) __attribute__((format(printf, 6, 7)));
void traces_builder_buffer(struct traces_builder *b, int64_t numel, enum lw_dtype dtype,
                           const char *name, ...) __attribute__((format(printf, 4, 5)));
void traces_builder_note(struct traces_builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* models_products.c: keep the products of a part of the module added last; the table and the lists
 * of the finished workload. */
void traces_builder_products(struct traces_builder *b, const struct traces_cost *c);
void traces_builder_settle_products(struct traces_builder *b);
/* Ready order and times, optimizer, provenance; checks the result and frees all on failure. */
enum lw_status traces_builder_finish(struct traces_builder *b, const char *producer,
                                     struct lw_workload *w, struct lw_err *err);
