#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/numbers/dtype.h"
#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "traces/nccl_tests/import_nccl_tests.h"

/* Calls of a communication library, as a preloaded recorder wrote them: docs/formats/calls.md. */
struct lw_input;

/* Calls that no plan has, after the kinds of enum lw_op_kind: they are inspected, and give no
 * table. */
enum {
    TRACES_CALL_GATHER = LW_N_OP_KINDS,
    TRACES_CALL_SCATTER,
    TRACES_CALL_SCAN,
    TRACES_CALL_NEIGHBOR_GATHER,
    TRACES_CALL_NEIGHBOR_ALL_TO_ALL,
    TRACES_CALL_PUT,
    TRACES_CALL_WAIT,
    TRACES_N_CALLS,
};
const char *traces_call_name(int32_t op);

struct traces_recorded_call {
    int32_t op;                  /* enum lw_op_kind, or one of the above */
    enum lw_dtype dtype;         /* meaningless where dtype_known is false */
    bool dtype_known;
    int64_t count;               /* elements as the library counts them */
    int64_t entered_ns, host_ns; /* on the host, CLOCK_MONOTONIC of the process */
    int64_t start_ns, end_ns;    /* when it ran; -1 = not recorded */
    int64_t group;               /* 0 = none */
    int32_t peer, comm;          /* comm: index into comms */
};

struct traces_recorded_comm {
    uint64_t id;                 /* equal on all members */
    int32_t rank, n_ranks;       /* -1 = not recorded */
};

struct traces_recorded {
    struct lw_arena arena;       /* owns everything below */
    const char *file;            /* borrowed */
    const char *library, *host;  /* "nccl 2.28.9" */
    const char *lost;            /* functions whose calls have no line: "MPI_Put, MPI_Get"; "" */
    int64_t n;
    struct traces_recorded_call *calls;   /* in the order in which they were entered */
    int32_t n_comms;
    struct traces_recorded_comm *comms;
};

bool traces_recorded_is(const char *text, size_t len);
/* LW_EFORMAT names file, line and field. A last line without its end is left out: the process was
 * stopped while it wrote. */
enum lw_status traces_recorded_read(const struct lw_input *in, struct traces_recorded *out,
                                 struct lw_err *err);
void traces_recorded_free(struct traces_recorded *c);

/* Bytes of a call by the convention of shared/plan/cost.h; -1 = its type is unknown. */
int64_t traces_recorded_bytes(const struct traces_recorded *c,
                              const struct traces_recorded_call *call);

/* The shortest sequence of calls that the recording repeats up to its end: the calls of one step.
 *   *n_calls    in one period; 0 = nothing repeats at least three times
 *   *n_periods  whole periods at the end of the recording
 *   *period_ns  median time between the first calls of two periods
 * LW_ENOMEM. */
enum lw_status traces_recorded_period(const struct traces_recorded *c, int64_t *n_calls,
                                   int64_t *n_periods, int64_t *period_ns, struct lw_err *err);

/* Measured collectives of the files of one run as tables. A member's span includes its wait for the
 * last one to come, so the time of a collective is the shortest span of all members that were
 * recorded; a size has the median over its occurrences. LW_EINVAL: no file has spans, or two files
 * are of one rank. */
enum lw_status traces_recorded_tables(const struct traces_recorded *c, int n,
                                      struct traces_bench *out, struct lw_err *err);
