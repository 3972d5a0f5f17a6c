#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/cpu/gemm.h"
#include "exec/cpu/clock_wait.h"
#include "shared/plan/op.h"

/* What backends that compute on processor cores share: streams as queues with a thread each,
 * events, compute, memory, and the giving of communication. How the data of a communication moves
 * is the backend's own: its wire.
 *
 *   cpu_world.c   placement, opening, closing, memory, facts, poll
 *   cpu_stream.c  queues, and running what they hold
 *   cpu_comm.c    communicators; giving collectives, sends and receives
 *
 * The functions cpu_* with the signatures of struct exec_backend go into a backend's table:
 * CPU_TABLE. */

struct cpu_link; /* a communicator as its wire knows it */

/* Calls on one communicator and member come one at a time, from threads of streams; they block. A
 * message's peer is a member number. */
struct cpu_wire {
    bool everyone; /* processes without a member make links, too */
    bool may_hang; /* a call may last for ever when another process is gone */
    enum lw_status (*link_new)(struct exec_world *w, const struct exec_comm *c,
                               struct cpu_link **link, struct lw_err *err);
    void (*link_free)(struct cpu_link *link); /* NULL is fine */
    /* of w->region, until close */
    void *(*memory)(struct exec_world *w, int32_t rank, int64_t bytes);
    /* *all_in_ns: when the last member, or of an exchange the last peer, entered; -1 unknown. */
    enum lw_status (*collective)(struct cpu_link *link, int32_t i, enum lw_op_kind op,
                                 const struct exec_message *m, int64_t *all_in_ns,
                                 struct lw_err *err);
    enum lw_status (*exchange)(struct cpu_link *link, int32_t i, const struct exec_transfer *x,
                               int32_t n, int64_t *all_in_ns, struct lw_err *err);
};

enum cpu_command_kind { CPU_RECORD, CPU_WAIT, CPU_COMPUTE, CPU_COLLECTIVE, CPU_EXCHANGE };

struct cpu_command {
    enum cpu_command_kind kind;
    enum lw_op_kind op;
    uint32_t batch;  /* held back until `released` reaches it */
    uint32_t ticket; /* events: value of `done`; communication: turn of the member */
    int32_t n_items; /* exchange: sends and receives, in message.mem as struct exec_transfer */
    struct exec_event *event;
    struct exec_comm *comm;
    struct exec_stamp *stamp;
    struct exec_task task;
    struct exec_message message;
};

struct cpu_queue { /* commands [head, n) wait; a mutex of the stream guards it */
    struct cpu_command *items;
    int64_t head, n, capacity;
};

struct exec_stream {
    struct exec_world *world;
    struct exec_stream *next;
    int32_t rank, priority;
    char name[16];
    pthread_t thread;
    bool started, quit;
    bool lifts;         /* world->lifts when the stream was made: measuring again sets that */
    atomic_bool ended;  /* the thread touches nothing of the world any more */
    pthread_mutex_t mutex;
    pthread_cond_t given;
    struct cpu_queue queue;
    struct exec_gemm_space space;
    int64_t issue_ns; /* when it came to the current op; 0 = not yet */
    int64_t free_ns;  /* since when it could run the next op, if it never slept since; else 0 */
};

struct exec_event {
    struct exec_event *next;
    uint32_t n_given;
    struct exec_counter done;
    _Atomic int64_t at_ns; /* of the last record */
};

struct exec_comm {
    struct exec_comm *next;
    struct cpu_link *link;          /* NULL: no member is in this process */
    int32_t n, *members, *index_of; /* [n]; [n_ranks], -1 = outside */
    uint32_t *n_given;              /* [n] tickets handed out */
    struct exec_counter *turn;      /* [n] tickets served */
};

struct cpu_block; /* memory of a rank */
struct exec_region;

struct exec_world {
    struct exec_open how;
    const struct cpu_wire *wire;
    int32_t first, n_local;      /* ranks of this process */
    struct exec_gemm gemm;
    struct exec_gemm_rate *rate; /* [n_local] */
    int32_t n_cores, *cores;
    bool lifts;                  /* a better nice level is allowed */
    int32_t n_machine_cores;     /* that ranks of this machine may use */
    bool oversubscribed, one_machine;
    atomic_bool failed;          /* poll said so, or it was aborted */
    struct exec_stream *streams;
    struct exec_event *events;
    struct exec_comm *comms;
    struct cpu_block *blocks;
    struct exec_region *region;  /* of the wire: where memory comes from; NULL = of this process */
    uint32_t batch;              /* of what is given now */
    _Atomic int64_t n_pending;   /* commands given and not done */
    struct exec_counter idle;    /* times that n_pending came to 0: poll is woken then only */
    struct exec_counter released;
    double stamp_ns;
    atomic_bool stop;
    atomic_bool told;            /* the other processes know that this one stops */
    pthread_mutex_t mutex;       /* guards failure */
    struct lw_err failure;
    char compute[192], about[256];
};

/* Open a world of ranks on cores; `how` is checked by the caller. `about` is filled with the
 * placement, to which a backend may add. */
enum lw_status cpu_open(const struct exec_open *how, const struct cpu_wire *wire,
                        struct exec_world **world, struct lw_err *err);
/* False: after 2 s a thread is still inside a call of its wire that nothing ends. Then nothing
 * is freed: the thread goes on in memory that stays, to the end of the process. */
bool cpu_close(struct exec_world *w);
bool cpu_fail(struct exec_world *w, const struct lw_err *why); /* true: it is the first failure */

void cpu_abort(struct exec_world *w, const char *why);
void cpu_facts(const struct exec_world *w, struct exec_facts *f);
int64_t cpu_now_ns(const struct exec_world *w);
int64_t cpu_pending(const struct exec_world *w);
enum exec_state cpu_poll(struct exec_world *w, int64_t deadline_ns, struct lw_err *err);
enum lw_status cpu_time_product(struct exec_world *w, struct exec_product_time *t,
                                struct lw_err *err);
void cpu_hold(struct exec_world *w);
enum lw_status cpu_release(struct exec_world *w, struct lw_err *err);

enum lw_status cpu_mem_alloc(struct exec_world *w, int32_t rank, int64_t bytes, void **mem,
                             struct lw_err *err);
void cpu_mem_free(struct exec_world *w, int32_t rank, void *mem);
enum lw_status cpu_mem_read(struct exec_world *w, int32_t rank, void *host, const void *mem,
                            int64_t bytes, struct lw_err *err);
enum lw_status cpu_mem_write(struct exec_world *w, int32_t rank, void *mem, const void *host,
                             int64_t bytes, struct lw_err *err);

enum lw_status cpu_stream_create(struct exec_world *w, int32_t rank, const char *name,
                                 int32_t priority, struct exec_stream **stream, struct lw_err *err);
enum lw_status cpu_event_create(struct exec_world *w, int32_t rank, struct exec_event **event,
                                struct lw_err *err);
enum lw_status cpu_event_record(struct exec_stream *s, struct exec_event *e, struct lw_err *err);
enum lw_status cpu_event_wait(struct exec_stream *s, struct exec_event *e, struct lw_err *err);
enum lw_status cpu_compute(struct exec_stream *s, const struct exec_task *task,
                           struct exec_stamp *stamp, struct lw_err *err);

enum lw_status cpu_comm_create(struct exec_world *w, const int32_t *members, int32_t n,
                               struct exec_comm **comm, struct lw_err *err);
void cpu_comm_destroy(struct exec_world *w, struct exec_comm *comm);
enum lw_status cpu_communicate(struct exec_stream *s, struct exec_comm *c,
                               const struct exec_transfer *x, int32_t n, struct lw_err *err);

/* What a backend on cores puts into its table beside its name, capabilities, probe, open and
 * close. */
#define CPU_TABLE                                                                                  \
    .abort = cpu_abort, .facts = cpu_facts, .now_ns = cpu_now_ns, .mem_alloc = cpu_mem_alloc,      \
    .mem_free = cpu_mem_free, .mem_read = cpu_mem_read, .mem_write = cpu_mem_write,                \
    .stream_create = cpu_stream_create, .event_create = cpu_event_create,                          \
    .event_record = cpu_event_record, .event_wait = cpu_event_wait, .compute = cpu_compute,        \
    .time_product = cpu_time_product, .hold = cpu_hold, .release = cpu_release,                    \
    .comm_create = cpu_comm_create, .comm_destroy = cpu_comm_destroy,                              \
    .communicate = cpu_communicate, .poll = cpu_poll, .pending = cpu_pending

/* Between the files of this idea. */
enum lw_status cpu_give(struct exec_stream *s, const struct cpu_command *c, struct lw_err *err);
/* the calling thread, on the rank's core */
void cpu_settle(const struct exec_world *w, int32_t rank);
bool cpu_renice(int delta);                                /* the calling thread */
void cpu_stream_quit(struct exec_stream *s);
void cpu_stream_free(struct exec_stream *s); /* its thread is gone */
void cpu_comm_free(struct exec_world *w, struct exec_comm *c);
enum { CPU_NICE_STEP = 19 };
