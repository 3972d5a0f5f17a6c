#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/run/run.h"
#include "shared/base/err.h"

/* How the processes of one run find each other, agree that they are one run, and stay in touch.
 * Rank 0 listens; the others connect to it over TCP, each twice: one connection carries data
 * (broadcast, barrier, gathered results), the other one only says that its owner is alive, or
 * why it stops. */

enum { EXEC_PORTS = 8 };

struct exec_identity {
    int32_t rank, n_ranks, local_rank;
    int32_t n_here; /* ranks on this machine; 1 where the launcher does not say */
    char host[256]; /* where rank 0 listens */
    int32_t port;
    int32_t n_ports, ports[EXEC_PORTS]; /* tried in this order; 0: `port` was requested, no other */
    char token[64]; /* of the job: a stranger with another one is turned away */
    char source[96]; /* where this comes from, for people: "torchrun (RANK, WORLD_SIZE)" */
    const volatile sig_atomic_t *signal; /* not 0: rank 0 stops waiting for others; or NULL */
};

/* Who this process is, by the variables of its launcher: LAPWING_RANK ..., torchrun, Open MPI,
 * PMI, Slurm. *found false: none of them set, id untouched. LW_EINVAL: two launchers contradict
 * each other, or one is incomplete; the message names the variables and their values. */
enum lw_status exec_identity_read(struct exec_identity *id, bool *found, struct lw_err *err);

/* The launcher gave the job a name of its own; "" and torchrun's default, "none", are not one. */
bool exec_identity_has_token(const struct exec_identity *id);

/* Where rank 0 listens: HOST:PORT, a name or an address; [ADDRESS]:PORT for IPv6. LW_EINVAL: not
 * so. */
enum lw_status exec_identity_address(struct exec_identity *id, const char *text,
                                     struct lw_err *err);

enum { EXEC_SETTINGS = 640 };

/* What all processes must have in common, sent to rank 0 before anything else. */
struct exec_agreement {
    char plan_hash[33], backend[16], program[32]; /* program: version of lapwing */
    char settings[EXEC_SETTINGS]; /* "name=value;" for whatever else changes what ranks do */
};

struct exec_rendezvous;

/* Rank 0 has two connections to each other process. LW_ENOTSUP: this process may not open so
 * many files; the limit is raised as far as the system allows first. */
enum lw_status exec_rendezvous_room(int32_t n_ranks, struct lw_err *err);

/* LW_ETIMEOUT: who is missing; LW_EINVAL: who differs, in what. *run (NULL: not wanted) is rank
 * 0's to give, and what it gave on all others. */
enum lw_status exec_rendezvous_open(const struct exec_identity *id, const struct exec_agreement *a,
                                    int64_t timeout_ns, int64_t *run, struct exec_rendezvous **r,
                                    struct lw_err *err);
/* Tells the others that this process is done (they do not take it for lost) and frees. */
void exec_rendezvous_close(struct exec_rendezvous *r);

/* This process ends with exit_status and was never in exec_rendezvous_open: where it is rank 1 or
 * more of a run, rank 0 is told, should it listen within a second, and does not wait for it. False:
 * it was not told. */
bool exec_rendezvous_not_coming(int exit_status);
/* On another rank than 0: rank 0 is gone, and said no farewell. */
bool exec_rendezvous_lost_first(struct exec_rendezvous *r);
/* From now on a call may last so long. */
void exec_rendezvous_limit(struct exec_rendezvous *r, int64_t ns);

/* From now on `lost` is called when another process goes; at once if one already did. NULL ends
 * it: no call is under way when this returns. */
void exec_rendezvous_watch(struct exec_rendezvous *r, exec_lost_fn *lost, void *context);
/* Called once, from any thread, as soon as a process goes or says why it stops, this one
 * included: before anything else that takes time, because a launcher may end this process at any
 * moment from then on. */
typedef void exec_loss_noted_fn(void *context, const char *words);
void exec_rendezvous_note_loss(struct exec_rendezvous *r, exec_loss_noted_fn *note, void *context);
/* Tell all others to stop, and why. From any thread. */
void exec_rendezvous_abort(struct exec_rendezvous *r, const char *why);

/* After a run that stopped: rank 0 receives where the others stopped, for at most wait_ns;
 * all[n_ranks] is filled, known or not. The others say where they were and stay until rank 0 is
 * done (or wait_ns): launchers end a job when the first of its processes does. False, on them: rank
 * 0 is lost, or (on rank 1) did not say farewell in that time; on rank 0: rank 1 took it for lost.
 * Who gets true on rank 0 or false elsewhere stores the run, the lowest rank first. */
bool exec_rendezvous_stopped_at(struct exec_rendezvous *r, const struct lw_exec_place *mine,
                                int64_t wait_ns, struct lw_exec_place *all);

/* How many connections rank 0 turned away, and who was the last and why ("" = none). */
int32_t exec_rendezvous_turned_away(const struct exec_rendezvous *r, const char **last);

/* All processes together, from one thread, in the same order; within the time limit. */
enum lw_status exec_rendezvous_broadcast(struct exec_rendezvous *r, void *data, int32_t bytes,
                                         struct lw_err *err);
/* Rank 0 gets every rank's bytes, in rank order, its own included; the others call with take
 * NULL. */
enum lw_status exec_rendezvous_gather(struct exec_rendezvous *r, const void *data, int64_t bytes,
                                      exec_take_fn *take, void *context, struct lw_err *err);

/* Rank 0's clock minus this process's (CLOCK_MONOTONIC), from the quickest of a few round trips. */
int64_t exec_rendezvous_clock_offset(const struct exec_rendezvous *r);

int64_t exec_rendezvous_clock_error(const struct exec_rendezvous *r); /* half of that trip */

/* For exec_open: process->context is r. */
void exec_rendezvous_process(struct exec_rendezvous *r, struct exec_process *p);
