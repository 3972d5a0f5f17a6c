#pragma once

#include <signal.h>

#include "exec/launch/rendezvous.h"

/* How the processes that exec_spawn started ended. */
struct exec_spawned {
    int exit_status; /* 0 to 3: of the first that did not succeed; 1 where a signal ended it */
    int32_t first;   /* which rank that was; -1 = none, or not known */
    int signal_no;   /* what ended it; 0: itself, or not known */
    char how[64];    /* "rank 1 was ended by signal 9 (Killed)"; "rank 1 ended first" */
    bool printed;    /* their standard output was written to this process's */
};

struct exec_spawning {
    const struct exec_backend *backend;
    int32_t n_ranks;
    int64_t grace_ns;
    const char *rendezvous; /* HOST:PORT, or NULL = a free port of this machine's loopback */
    const volatile sig_atomic_t *signal; /* not 0: it is passed on to all; or NULL */
    int64_t run;            /* their row in the results database; -1 = none */
};

/* Start n_ranks processes of this program with the same arguments, on this machine, each told
 * who it is, or mpirun that does so, and wait for them. When one fails, those that are stopped
 * (SIGSTOP) are killed at once, and the rest when grace_ns have passed. What they print comes out
 * when all have ended; an unfinished JSON object is left out. LW_EIO: could not start. LW_EFAILED:
 * a signal ended the first that failed; the message names rank and signal. */
enum lw_status exec_spawn(const struct exec_spawning *s, struct exec_spawned *ended,
                          struct lw_err *err);

/* The row that the process which started this one has made; -1: none. */
int64_t exec_spawned_run(void);
/* This process is a rank of a run that lapwing --spawn started, by itself or through mpirun. */
bool exec_is_spawned(void);

/* Who runs the ranks of a command that makes its own plans. */
struct exec_ranks {
    struct exec_identity id;
    bool several;    /* this process is one rank, `id` */
    bool over;       /* the ranks were processes that this one started and that are gone; */
    int exit_status; /* of the first that did not succeed, */
    bool printed;    /* and what they printed is written */
};

/* LW_ENOTSUP: --spawn cannot start this backend's ranks; the message says what can. */
enum lw_status exec_can_spawn(const struct exec_backend *b, struct lw_err *err);

/* *n_ranks 0: as many as a launcher started, or `otherwise`. spawn: start them, unless this process
 * is one of them. LW_EUSAGE: another number than the launcher's. Errors of starting. */
enum lw_status exec_ranks_find(struct exec_ranks *r, const struct exec_backend *b, int64_t *n_ranks,
                               int64_t otherwise, bool spawn, struct lw_err *err);
