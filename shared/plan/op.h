#pragma once

#include <stdint.h>

#include "shared/base/err.h"

/* The kinds of ops. The table in op.c gives each kind its name, its letter and its class; nothing
 * else in the tree switches over all of them. */
enum lw_op_kind {
    /* compute: occupies a compute stream for its work */
    LW_OP_FORWARD,         /* F */
    LW_OP_BACKWARD,        /* B: input and weight gradients together */
    LW_OP_BACKWARD_INPUT,  /* I */
    LW_OP_BACKWARD_WEIGHT, /* W */
    LW_OP_OPTIMIZER,
    LW_OP_KERNEL,          /* any other device work (recorded kernels) */
    /* memory movement on the device: `bytes` moved, timed by the copy rate unless it has work */
    LW_OP_COPY_IN,         /* gradients -> their slots in buckets */
    LW_OP_COPY_OUT,        /* bucket -> gradients */
    LW_OP_COPY,
    LW_OP_CAST,
    /* communication */
    LW_OP_ALL_REDUCE,
    LW_OP_REDUCE,
    LW_OP_REDUCE_SCATTER,
    LW_OP_ALL_GATHER,
    LW_OP_BROADCAST,
    LW_OP_ALL_TO_ALL,
    LW_OP_SEND,
    LW_OP_RECV,
    LW_OP_BARRIER,
    /* memory accounting: no time */
    LW_OP_ALLOC,
    LW_OP_FREE,
    /* host */
    LW_OP_HOST,            /* work or a gap on the host stream */
    LW_OP_LAUNCH,          /* a device op depends on it: cannot start before */
    LW_OP_EVENT_RECORD,    /* a point in a stream */
    LW_OP_EVENT_WAIT,      /* later ops of this stream wait for its dependencies */
    LW_OP_HOST_SYNC,       /* the host stream waits for its dependencies */
    /* memory movement between the device and its host, timed by the link to the host */
    LW_OP_LOAD,            /* host -> device */
    LW_OP_STORE,           /* device -> host */
    LW_N_OP_KINDS,
};

/* The name of ops of the kind HOST on a compute stream that add up gradients: they move memory. */
#define LW_OP_ACCUMULATE "accumulate"

enum lw_op_class {
    LW_CLASS_COMPUTE,
    LW_CLASS_COPY,
    LW_CLASS_COLLECTIVE, /* all members of the group take part */
    LW_CLASS_P2P,        /* send or receive with one peer */
    LW_CLASS_MEMORY,
    LW_CLASS_HOST,
};

struct lw_op_row {
    const char *name, *letter;
    enum lw_op_class class_;
};
extern const struct lw_op_row lw_op_rows[LW_N_OP_KINDS];

const char *lw_op_name(enum lw_op_kind kind);       /* "all_reduce" */
const char *lw_op_word(int kind);                   /* the same, for tables; NULL beyond the last */
const char *lw_op_letter(enum lw_op_kind kind);     /* "F", "AR", ... at most 2 characters */
static inline enum lw_op_class lw_op_class(enum lw_op_kind kind)
{
    return lw_op_rows[kind].class_;
}
enum lw_status lw_op_parse(const char *name, enum lw_op_kind *kind, struct lw_err *err);
