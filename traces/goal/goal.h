#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "shared/plan/plan.h"

/* GOAL schedules: sends, receives and calculations of each rank, and which of them wait for which;
 * text, or the binary form that LogGOPSim's converter writes. See docs/design/import_goal.md. */
struct lw_input;

enum goal_type { GOAL_SEND = 1, GOAL_RECV, GOAL_CALC }; /* the numbers of the binary form */
enum { GOAL_ANY = -1 };                                 /* source, tag */

struct goal_op {
    int64_t size;      /* bytes; of a calculation its time in the schedule's unit */
    int32_t peer, tag; /* GOAL_ANY: any */
    int32_t line;      /* of the text; 0 in binary files */
    int32_t first_dep, n_deps;
    uint8_t type, cpu, nic;
};

struct goal_dep {
    int32_t op; /* number within its rank */
    bool start; /* irequires: it has started; else it has ended */
};

/* LogGOPS (Hoefler, Schneider, Lumsdaine, HPDC 2010): latency, overhead, gap, gap and overhead per
 * byte in femtoseconds, bytes up to which a send does not wait for its receive. */
struct goal_network {
    lw_ps L, o, g;
    int64_t G_fs, O_fs, S;
    const char *source; /* "given", "of the file", "LogGOPSim's defaults" */
};

struct traces_goal {
    struct lw_arena arena; /* owns all */
    const char *file;      /* borrowed */
    int32_t n_ranks, n_cpus, n_nics;
    int64_t n_ops, n_deps;
    int64_t *first; /* [n_ranks + 1] ops of rank r: first[r] .. first[r + 1] */
    struct goal_op *ops;
    struct goal_dep *deps;
    int64_t n_sends, n_recvs, n_calcs, n_requires, n_irequires;
    lw_ps unit;       /* of calculations: 1 ns, or what our own export says */
    bool has_network; /* our own export says the parameters */
    struct goal_network network;
    bool binary;
};

bool traces_goal_is(const char *text, size_t len);
/* LW_EFORMAT names line (or byte) and what is expected there. Free with traces_goal_free. */
enum lw_status traces_goal_read(const struct lw_input *in, struct traces_goal *out,
                                struct lw_err *err);
void traces_goal_free(struct traces_goal *g);
/* "line 12" or "op 3 of rank 2"; room for GOAL_TEXT bytes. */
enum { GOAL_TEXT = 64 };
const char *traces_goal_op_text(const struct traces_goal *g, int32_t rank, int64_t op, char *text);

/* "L=2500,o=1500,g=1000,G=6,O=0,S=65535": nanoseconds and bytes; what is left out keeps the value
 * that *n has. LW_EINVAL names what is wrong. */
enum lw_status traces_goal_network_parse(const char *text, struct goal_network *n,
                                         struct lw_err *err);
enum lw_status traces_goal_network_check(const char *text, struct lw_err *err);
/* When the last processor is free: the step of the plan, without the plan. LW_EFORMAT: a message
 * without its other end. */
enum lw_status traces_goal_step(const struct traces_goal *g, const struct goal_network *n,
                                lw_ps *step, struct lw_err *err);
struct goal_network traces_goal_network_default(void); /* of LogGOPSim's command line */

/* The schedule under these parameters as a plan of the engine with buffered sends: one role for
 * each rank, in the order in which a LogGOPS simulation starts the ops. LW_EFORMAT: a cycle, a
 * send without its receive, ops that wait for ever. */
enum lw_status traces_goal_plan(const struct traces_goal *g, const struct goal_network *n,
                                struct lw_plan *out, struct lw_err *err);
