#pragma once

#include <cublas_v2.h>
#include <cuda.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/cpu/clock_wait.h"
#include "exec/nccl/kernels.h"
#include "shared/base/arena.h"
#include "shared/plan/op.h"

/* What the files of the NCCL plugin share: one world, its streams, events, communicators and the
 * queue of commands that have been given and not yet handed to CUDA. See
 * docs/design/backend_nccl.md.
 *
 *   backend_nccl.c  the table: open, close, abort, poll
 *   nccl_device.c   the CUDA side: context, memory, kernels, timing events, clock
 *   nccl_queue.c    commands in the order given; which may be handed over
 *   nccl_compute.c  tasks as kernels; measuring them
 *   nccl_filler.c   the rest of a task's time: products, copies
 *   nccl_register.c    buffers that NCCL moves without a copy of its own
 *   device_state.c     clocks, power and throttling while steps run
 *   nccl_mismatch.c    values that are not what they should be
 *   nccl_comm.c     communicators and collectives of NCCL
 *   nccl_graph.c    a step as one CUDA graph
 *   nccl_loop.c     the same among logical ranks that share one device
 */

enum kernel_id {
#define KERNEL_ID(name) KERNEL_##name,
    KERNEL_LIST(KERNEL_ID)
#undef KERNEL_ID
    N_KERNELS
};

enum { FLAG_STOP, FLAG_FAILED, N_FLAGS };

enum filler_kind { FILL_F32, FILL_BF16, FILL_STREAM, N_FILLERS };

struct filler { /* nccl_filler.c */
    int32_t unit, grain; /* rows of a product, elements of a copy */
    double unit_work;    /* FLOPs, or bytes read and written */
    double unit_ns, grain_ns; /* 0 = not measured: no op needs it */
    double first_ns;     /* unit_ns when it was measured first: an op's kind stays what it was */
    CUdeviceptr a, b;    /* factors */
};

struct shapes { /* nccl_products.c: of the plan's products */
    const struct lw_product *table; /* the plan's; NULL = no op has needed them */
    int32_t n;
    double *ns;          /* [n] alone on the device; 0 = not measured */
    CUdeviceptr a, b, c; /* factors, and the result of what is measured */
    int64_t result_bytes;
};

enum command_kind { CMD_RECORD, CMD_WAIT, CMD_COMPUTE, CMD_COLLECTIVE, CMD_EXCHANGE };

struct p2p { /* one send or receive of an exchange */
    struct exec_transfer x; /* peer: member number */
    bool moved;             /* loop: its data is on the way */
};

struct command {
    struct command *next;
    enum command_kind kind;
    struct exec_stream *stream;
    struct exec_event *event;
    uint64_t ticket; /* events: number of the record; communication: turn of the member */
    struct exec_task task;
    struct exec_comm *comm;
    enum lw_op_kind op;
    struct exec_message message; /* peer: member number of the root */
    struct exec_stamp *stamp;
    bool issued;
    struct flight *flight; /* loop: an exchange that has begun */
    int32_t n_items, n_moved;
    struct p2p items[];
};

/* An op that CUDA has and whose stamp is not complete. */
struct flight {
    struct flight *next;
    struct exec_stamp *stamp;
    CUevent start, end;
    bool noted, fails;         /* known to have begun; reports a failure, so never ends */
    bool computes;             /* waits for no other rank */
    int64_t over_ns;
    int64_t graph;             /* number of the graph that it is in; 0 = none */
    int64_t queued;            /* of its stream, up to and with its end */
    struct loop_round *round;  /* loop: the collective's members; NULL = alone */
    struct command *exchange;  /* owned: its items get the stamp */
};

/* One collective in a loop: when its last member entered is known once all starts are. */
struct loop_round {
    int32_t n_flights;         /* not yet stamped */
    int32_t n_missing;         /* not yet known to have begun */
    int64_t all_in_ns;
};

struct exec_stream {
    struct exec_stream *next;
    struct exec_world *world;
    CUstream cu;
    int32_t rank;
    int64_t n_queued, n_landed; /* entries of the driver's queue: submitted, known to be done */
    int64_t *clock;                     /* device word: when the running task began */
    CUdeviceptr result[N_FILLERS];      /* of what fills its time; 0 = none yet */
    CUdeviceptr product;                /* result of the plan's products; 0 = none yet */
    CUevent begun;                      /* loop: its op under way has begun */
    struct flight *head, **tail;
    int64_t last_end_ns, floor_ns;      /* of this step, 0 = none yet; of all */
    bool blocked;                       /* in this pass over the queue */
};

struct exec_event {
    struct exec_event *next;
    CUevent cu;
    uint64_t n_given, n_issued; /* records */
};

struct exec_comm {
    struct exec_comm *next;
    ncclComm_t nccl;                 /* NULL: loop, or this process is not a member */
    int32_t n, me, *members, *index_of; /* [n]; [n_ranks], -1 = outside; me: of this process */
    uint64_t *n_given, *n_issued;    /* [n] ops per member */
    struct command **posted;         /* loop: [n] heads that wait for the rest */
    CUevent last;                    /* end of the op before */
    struct exec_stream *last_stream;
    bool ordered;                    /* loop: `last` is recorded, where that is waited for */
    int32_t *scratch;                /* device word for barriers */
    struct registration *registered; /* nccl_register.c */
    CUdeviceptr spare;               /* for what an all-to-all receives, spare_bytes */
    int64_t spare_bytes;
};

struct block { /* device memory */
    struct block *next;
    CUdeviceptr at;
    int64_t bytes;
    bool from_nccl;
};

struct gradient_table { /* on the device */
    struct gradient_table *next;
    int32_t multiple, largest;
    CUdeviceptr at;
};

struct loaded { /* nccl_compute.c: products of so many rows that have run once */
    struct loaded *next;
    int64_t side;
};

struct rates { /* what one launch and one element cost, alone on the device */
    double launch_ns, fill_ns, copy_ns, update_ns;
};

struct exec_world {
    struct exec_open how;
    bool loop, nameless; /* nameless: the driver gives the device no identity */
    int32_t first, n_local;
    CUdevice device;
    CUcontext context;
    bool retained;
    CUmodule module;
    CUfunction kernel[N_KERNELS];
    CUstream setup;
    int least, greatest, n_sm;
    volatile int32_t *flags; /* [N_FLAGS] host memory that kernels see */
    CUdeviceptr flags_at;
    struct block *blocks;
    struct gradient_table *tables;
    struct found *found;     /* nccl_mismatch.c */
    struct device_watch *device_watch; /* device_state.c; NULL: nothing to read */
    CUevent *pool;           /* timing events at rest */
    int64_t n_pool, pool_capacity, n_timers;
    CUevent anchor;
    int64_t anchor_ns;       /* the host's clock at `anchor` */
    struct exec_stream *streams;
    struct exec_event *events;
    struct exec_comm *comms;
    ncclComm_t world_comm;   /* parent of all others; NULL in a loop */
    ncclComm_t no_comm;      /* where NCCL writes that a split gave this process none */
    pthread_t watchdog;      /* nccl_comm.c: aborts a call that does not return */
    pthread_mutex_t call_mutex; /* guards the next seven */
    ncclComm_t in_call;      /* NULL: no call under way */
    int64_t call_from, call_until;
    bool aborted, abort_done; /* by the watchdog: all communicators; the aborts have returned */
    bool watch_ends, in_capture;
    bool watched;            /* the thread runs */
    bool stuck;              /* the watchdog's aborts do not return: it still uses the world */
    bool cut_short;          /* a call was aborted: what ends now has not done its work */
    struct command *head, **tail;
    bool held, closing;
    bool capturing;          /* what is submitted goes into a graph */
    struct graph *graphs;    /* nccl_graph.c: made and not known to have ended */
    int64_t n_graphs, n_graphs_done;
    CUevent fork;            /* into a capture and out of it */
    int64_t submit_ns;       /* the host's time in calls that submit work */
    int64_t n_moves;         /* commands submitted, begun and ended so far */
    int64_t seen_moves, moved_ns; /* as the last poll saw it, and since when */
    cublasHandle_t blas;
    CUdeviceptr a, b, c;     /* f32 numbers; what is measured writes c */
    struct filler fill[N_FILLERS];
    struct shapes shapes;
    struct loaded *loaded;
    bool had_batch;          /* their lengths are measured again before the next */
    struct rates rates;
    /* failed: not by a plain abort; told: the other processes know */
    atomic_bool stop, failed, told;
    pthread_mutex_t mutex;   /* guards why */
    struct lw_err why;       /* of the stop */
    double memory_bytes, free_bytes;     /* of the device */
    char name[96], compute[320], about[256], settings[512];
};

void nccl_doze(int32_t n_tries); /* wait a little, longer after many tries */

/* LW_OK, or "call: the library's words". */
enum lw_status nccl_cu(CUresult r, const char *call, struct lw_err *err);
enum lw_status nccl_blas(cublasStatus_t s, const char *call, struct lw_err *err);

/* Stopped by abort or a failure: LW_EFAILED with the reason. */
enum lw_status nccl_stopped(struct exec_world *w, struct lw_err *err);
void nccl_stop(struct exec_world *w, const struct lw_err *why); /* it failed; the first counts */

/* nccl_device.c */
CUresult nccl_cuda_init(void); /* cuInit, with what it must find in the environment */
enum lw_status nccl_device_open(struct exec_world *w, int32_t ordinal, struct lw_err *err);
void nccl_device_close(struct exec_world *w); /* nothing may run any more */
enum lw_status nccl_wait_setup(struct exec_world *w, struct lw_err *err); /* until it has run dry */
enum lw_status nccl_mem_new(struct exec_world *w, int64_t bytes, CUdeviceptr *at,
                            struct lw_err *err); /* zeroed */
enum lw_status nccl_mem_new_message(struct exec_world *w, int64_t bytes, CUdeviceptr *at,
                                    struct lw_err *err); /* the same, for what ops communicate */
enum lw_status nccl_mem_put(struct exec_world *w, CUdeviceptr to, const void *from, int64_t bytes,
                            struct lw_err *err); /* returns when the device has it */
void nccl_mem_free(struct exec_world *w, CUdeviceptr at);
enum lw_status nccl_launch(struct exec_world *w, CUstream s, enum kernel_id k, void *args,
                           int64_t n_threads, struct lw_err *err);
enum lw_status nccl_timer_take(struct exec_world *w, CUevent *e, struct lw_err *err);
void nccl_timer_give(struct exec_world *w, CUevent e);
enum lw_status nccl_timers_reserve(struct exec_world *w, int64_t n, struct lw_err *err);
enum lw_status nccl_event_done(CUevent e, bool *done, struct lw_err *err);
enum lw_status nccl_anchor(struct exec_world *w, struct lw_err *err); /* while nothing runs */
enum lw_status nccl_time_of(const struct exec_world *w, CUevent e, int64_t *ns, struct lw_err *err);

/* nccl_queue.c */
enum lw_status nccl_give(struct exec_world *w, const struct command *c,
                         const struct exec_transfer *items, struct lw_err *err);
enum lw_status nccl_pump(struct exec_world *w, struct lw_err *err); /* hand over what may go */
enum lw_status nccl_harvest(struct exec_world *w, struct lw_err *err); /* stamp what is done */
bool nccl_idle(const struct exec_world *w); /* all given, all stamped */
bool nccl_computing(const struct exec_world *w); /* an op that waits for no other rank is running */
void nccl_queue_drop(struct exec_world *w);
/* Begin and end the measured part of a command on its stream. end puts it in flight, and returns
 * so_far where that is an error already. */
enum lw_status nccl_begin(struct exec_stream *s, struct flight **f, struct lw_err *err);
enum lw_status nccl_end(struct exec_stream *s, struct flight *f, struct exec_stamp *stamp,
                        enum lw_status so_far, struct lw_err *err);

/* begun, never ended; NULL is fine */
void nccl_flight_drop(struct exec_world *w, struct flight *f);

/* nccl_compute.c */
enum lw_status nccl_compute_open(struct exec_world *w, struct lw_err *err);
void nccl_compute_close(struct exec_world *w);
enum lw_status nccl_compute_again(struct exec_world *w, struct lw_err *err); /* nothing runs */
/* Room for the task's products and the tables of its parts, taken when it is given; its products
 * run once. */
enum lw_status nccl_compute_room(struct exec_stream *s, const struct exec_task *t,
                                 struct lw_err *err);
int64_t nccl_task_entries(const struct exec_world *w, const struct exec_task *t); /* at most */
enum lw_status nccl_issue_task(struct exec_stream *s, const struct exec_task *t, struct flight *f,
                               struct lw_err *err);

/* nccl_rows.c: the parts EXEC_PART_ROWS_*. table: of the gradient, for ROWS_FILL. */
enum lw_status nccl_rows(struct exec_stream *s, const struct exec_part *p, CUdeviceptr table,
                         struct lw_err *err);

/* nccl_filler.c. sizes: choose them for copies of so many elements; the bytes of the largest
 * result. again: measure while nothing runs. room: when a task is given. entries: of the launch
 * queue, at most. rest: ns of a task. */
int64_t nccl_fill_sizes(struct exec_world *w, int64_t elements);
enum lw_status nccl_fill_open(struct exec_world *w, struct lw_err *err);
enum lw_status nccl_fill_again(struct exec_world *w, struct lw_err *err);
enum lw_status nccl_fill_room(struct exec_stream *s, const struct exec_task *t, struct lw_err *err);
int64_t nccl_fill_entries(const struct exec_world *w, const struct exec_task *t);
enum lw_status nccl_fill_rest(struct exec_stream *s, const struct exec_task *t, double ns,
                              struct lw_err *err);
/* nccl_products.c. has: the task's products run by shape, all of them. room: when a task is given.
 * again: measure while nothing runs. rest: what is left of the task beside them. entries: of the
 * launch queue. issue: *ns is what they take alone. */
bool nccl_has_products(const struct exec_task *t);
enum lw_status nccl_products_room(struct exec_stream *s, const struct exec_task *t,
                                  struct lw_err *err);
enum lw_status nccl_products_again(struct exec_world *w, struct lw_err *err);
struct exec_task nccl_rest_of(const struct exec_task *t);
int64_t nccl_products_entries(const struct exec_task *t);
enum lw_status nccl_products_issue(struct exec_stream *s, const struct exec_task *t, double *ns,
                                   struct lw_err *err);
void nccl_products_close(struct exec_world *w);
/* The median time of work(w, kind, n) on the set-up stream, of rounds of `repeat` calls. */
typedef enum lw_status nccl_work_fn(struct exec_world *w, int32_t kind, int64_t n,
                                    struct lw_err *err);
enum lw_status nccl_time_work(struct exec_world *w, nccl_work_fn *work, int32_t kind, int64_t n,
                              int32_t repeat, double *ns, struct lw_err *err);
/* The same, of rounds of about a millisecond: of a call that follows others, as in a step. */
enum lw_status nccl_time_repeated(struct exec_world *w, nccl_work_fn *work, int32_t kind, int64_t n,
                                double *ns, struct lw_err *err);

/* nccl_mismatch.c: compare what a part takes; `tell` after a step, while nothing runs. */
enum lw_status nccl_expect(struct exec_stream *s, const struct exec_part *p, CUdeviceptr table,
                           struct lw_err *err);
enum lw_status nccl_tell_found(struct exec_world *w, struct lw_err *err);
void nccl_found_free(struct exec_world *w);

/* nccl_comm.c */
enum lw_status nccl_settle(struct exec_world *w, ncclComm_t c, ncclResult_t r, const char *call,
                           struct lw_err *err);
enum lw_status nccl_check_async(struct exec_world *w, struct lw_err *err);
enum lw_status nccl_world_comm_open(struct exec_world *w, struct lw_err *err);
enum lw_status nccl_issue_collective(const struct command *c, struct lw_err *err);
enum lw_status nccl_issue_exchange(struct command *c, struct lw_err *err);
void nccl_comms_close(struct exec_world *w, bool abort);

/* Room for what an all-to-all of `bytes` receives: taken when the op is submitted, not when it
 * runs. */
enum lw_status nccl_comm_spare(struct exec_world *w, struct exec_comm *c, int64_t bytes,
                               struct lw_err *err);

/* nccl_register.c: refuse where the library lacks it; of the memory that `mem` lies in, once. */
enum lw_status nccl_register_open(const struct exec_world *w, struct lw_err *err);
enum lw_status nccl_register_alloc(const struct exec_world *w, int64_t bytes, CUdeviceptr *at,
                                   struct lw_err *err);
void nccl_register_free(CUdeviceptr at);
enum lw_status nccl_register(struct exec_world *w, struct exec_comm *c, const void *mem,
                             struct lw_err *err);
void nccl_deregister(struct exec_comm *c);

/* device_state.c: active while steps run. Without NVML the state has no samples. */
enum lw_status nccl_device_watch(struct exec_world *w, struct lw_err *err);
void nccl_device_active(struct exec_world *w, bool active);
struct exec_device_state nccl_device_state(const struct exec_world *w);
void nccl_device_unwatch(struct exec_world *w);

/* nccl_graph.c: the table's step_graph; launch and note what has ended; while nothing is captured,
 * and before communicators end. */
enum lw_status nccl_step_graph(struct exec_world *w, struct lw_err *err);
enum lw_status nccl_graphs_pump(struct exec_world *w, struct lw_err *err);
void nccl_graphs_drop(struct exec_world *w);

/* nccl_loop.c: *issued false = other members are still missing. */
enum lw_status nccl_loop_collective(struct command *c, bool *issued, struct lw_err *err);
enum lw_status nccl_loop_exchange(struct command *c, bool *issued, struct lw_err *err);

/* The functions of the table that live beside what they work on. */
enum lw_status nccl_comm_create(struct exec_world *w, const int32_t *members, int32_t n,
                                struct exec_comm **c, struct lw_err *err);
enum lw_status nccl_comm_create_class(struct exec_world *w, const struct exec_members *groups,
                                      int32_t n, struct exec_comm **comms, struct lw_err *err);
enum lw_status nccl_comm_estimate(struct exec_world *w, struct exec_comm *c, int32_t rank,
                                  enum lw_op_kind op, const struct exec_message *m, int64_t *ns,
                                  struct lw_err *err);
enum lw_status nccl_comm_connect(struct exec_world *w, struct exec_comm *c, int32_t rank,
                                 const int32_t *peers, int32_t n, struct lw_err *err);
void nccl_comm_destroy(struct exec_world *w, struct exec_comm *c);
