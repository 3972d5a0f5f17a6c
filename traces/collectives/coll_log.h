#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

struct lw_input;
struct lw_jsonout;

/* Collectives that processes were asked for, in order, without their times on a device: dumps of
 * PyTorch's Flight Recorder and logs of NCCL. */
struct coll_call {
    const char *op, *dtype, *group, *state; /* group: the same text on all its ranks; state: "" */
    int64_t seq;             /* number in its group; of a send or receive among those */
    int64_t numel, out_numel; /* -1 = not recorded */
    bool p2p, done;          /* done: known to have ended */
    bool has_state;
};

struct coll_source { /* what one rank was asked for */
    const char *name; /* the file, or the process of a log */
    int32_t rank;     /* -1 = not said */
    int64_t n, cap;
    struct coll_call *calls; /* owned by lw_free */
};

struct coll_log {
    struct lw_arena arena; /* texts and sources */
    const char *format;
    int32_t n;
    struct coll_source *sources;
};

bool coll_log_is_recorder(const struct lw_input *in); /* Flight Recorder: JSON or pickle */
bool coll_log_is_nccl(const struct lw_input *in);     /* NCCL_DEBUG=INFO, SUBSYS=COLL */
enum lw_status coll_log_read_recorder(const struct lw_input *in, struct coll_log *out,
                                      struct lw_err *err);
enum lw_status coll_log_read_nccl(const struct lw_input *in, struct coll_log *out,
                                  struct lw_err *err);
void coll_log_free(struct coll_log *l);

/* Where the ranks of a group were asked for different things: text, and members of an open object.
 * *n_found: how many. A rank that no longer holds a call (its recorder is a ring) says nothing of
 * it. */
enum lw_status coll_mismatches_text(const struct coll_log *const *logs, int n, FILE *f,
                                    struct lw_err *err);
enum lw_status coll_mismatches_json(const struct coll_log *const *logs, int n,
                                    struct lw_jsonout *o, struct lw_err *err);
