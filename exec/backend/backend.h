#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/backend/optimizer.h"
#include "shared/base/err.h"
#include "shared/numbers/dtype.h"
#include "shared/plan/op.h"
#include "shared/strategy/reducer_kind.h"

struct lw_product;

/* What runs a plan on real hardware. One table of functions per backend; everything in it is
 * asynchronous: a call hands work to a stream and returns, and only `poll` blocks. Work given to
 * one stream runs in order. Handles are opaque and belong to their backend.
 *
 * A world holds n_ranks ranks, of which first_local .. first_local + n_local - 1 live in this
 * process (threads: all of them; one process per rank: one). Ranks are named by their number in
 * the world. Functions marked (optional) may be NULL; the capability bit beside them then is
 * unset. Calls come from one thread, except `abort`. Memory handed to a call (stamps, tasks,
 * messages' contents) is kept until poll reports that the work is done. Times are ns on the
 * world's clock. */

#define EXEC_API_VERSION 14

struct exec_rows;
struct exec_world;
struct exec_stream;
struct exec_event;
struct exec_comm;

enum exec_capability {
    EXEC_CAN_PRIORITY = 1 << 0, /* streams of greater priority run first */
    EXEC_CAN_ALL_REDUCE = 1 << 1,
    EXEC_CAN_REDUCE = 1 << 2,
    EXEC_CAN_REDUCE_SCATTER = 1 << 3,
    EXEC_CAN_ALL_GATHER = 1 << 4,
    EXEC_CAN_BROADCAST = 1 << 5,
    EXEC_CAN_ALL_TO_ALL = 1 << 6,
    EXEC_CAN_BARRIER = 1 << 7,
    EXEC_CAN_SEND_RECV = 1 << 8,
    EXEC_CAN_PACE = 1 << 10,      /* links of a chosen speed */
    EXEC_CAN_ALL_IN = 1 << 11,    /* stamps say when the last member arrived */
    EXEC_CAN_LOOP = 1 << 12,      /* several ranks as streams of one device */
    EXEC_CAN_SPAWN = 1 << 13,     /* processes need no launcher of a library: --spawn starts them */
    EXEC_CAN_ALGORITHM = 1 << 14, /* comm_reducer */
    EXEC_CAN_PROCESS = 1 << 15,   /* a rank may be a process: exec_open.process */
    EXEC_CAN_END = 1 << 16,       /* EXEC_PART_EXIT, KILL and STOP */
    EXEC_IN_HOST_MEMORY = 1 << 17, /* what ranks take is this machine's memory */
    EXEC_CAN_REGISTER = 1 << 19,   /* exec_open.registered; NCCL_* variables steer it */
    EXEC_CAN_GRAPH = 1 << 20,      /* step_graph */
    EXEC_BY_MPIRUN = 1 << 21,      /* --spawn starts mpirun, which starts the processes */
};

/* What a row of results may claim. */
enum exec_honesty {
    EXEC_REAL,     /* the hardware ran at its own speed */
    EXEC_SPUN,     /* compute was a busy wait by the clock */
    EXEC_SLEPT,    /* compute was a sleep by the clock */
    EXEC_PACED,    /* links were slowed to a chosen speed */
    EXEC_EMULATED, /* several ranks shared what a real run has once per rank */
};

/* How compute time is spent. */
enum exec_compute {
    EXEC_COMPUTE_GEMM,  /* matrix products, counted: slower when something shares the core */
    EXEC_COMPUTE_SPIN,  /* busy until the clock says so */
    EXEC_COMPUTE_SLEEP, /* idle until the clock says so: overlap without a core per thread */
    EXEC_N_COMPUTES,
};

typedef void exec_lost_fn(void *argument, const char *why);
typedef enum lw_status exec_take_fn(void *context, int32_t rank, const void *data, int64_t bytes,
                                    struct lw_err *err);

/* This process among those of the run, where each rank is one. Calls block, within the run's time
 * limit; they come from one thread. */
struct exec_process {
    int32_t rank, local_rank; /* local_rank: among the processes of this machine */
    /* data[bytes] of rank 0 on every rank; no rank returns before all have called it. */
    enum lw_status (*broadcast)(void *context, void *data, int32_t bytes, struct lw_err *err);
    enum lw_status (*barrier)(void *context, struct lw_err *err);
    /* `lost` is called, from another thread and at most once, when another process is gone or gave
     * up; NULL ends it. stop: tell the others that this one gives up. Neither blocks. */
    void (*watch)(void *context, exec_lost_fn *lost, void *argument);
    void (*stop)(void *context, const char *why);
    void (*limit)(void *context, int64_t ns); /* from now on calls may last so long */
    void *context;
};

struct exec_open {
    int32_t n_ranks;
    enum exec_compute compute;
    bool pin;                  /* rank r on the r-th usable core, modulo their number */
    int32_t ranks_per_node;    /* ranks r with equal r / ranks_per_node share a node; 0 = all do */
    double link_bytes_per_s;   /* > 0: pace the links between nodes, or all where there is one node
                                * (EXEC_CAN_PACE) */
    int64_t link_latency_ns;
    int64_t timeout_ns;        /* for what opening and handing work over may wait on other ranks */
    bool loop;                 /* EXEC_CAN_LOOP: all ranks in this process, on one device */
    bool registered;           /* EXEC_CAN_REGISTER: buffers are registered with communicators */
    const struct exec_process *process; /* kept until close; NULL = all ranks are in this process */
};

/* Of a device while steps ran, as its driver reported it. */
struct exec_device_state {
    double n_readings, n_throttled; /* all, those with a reason that slows it; 0 = not known */
    double sm_mhz_mean, sm_mhz_min, memory_mhz_min, watts_mean, watts_max, celsius_max;
};

/* What an open world is; strings live until close. */
struct exec_facts {
    int32_t n_ranks, first_local, n_local;
    enum exec_honesty honesty;
    bool oversubscribed;       /* more ranks than cores, or devices */
    int32_t n_cores;
    const char *compute;       /* "OpenBLAS 0.3.21, sgemm 192" */
    const char *about;         /* one line for people: placement, priorities */
    double unit_ns; /* compute: time of one GEMM with every rank computing; 0 = by clock */
    double unit_flops;         /* floating point operations of one GEMM */
    const char *device;        /* what a rank computes on: "cpu core", "NVIDIA H200" */
    double memory_bytes;       /* of the device, or all ranks' share of this machine */
    double free_bytes;         /* of the device before the world took any; 0 = not known */
    bool comm_on_compute_core; /* communication takes the processor that computes */
    double stamp_ns;           /* what stamping one op takes, measured; 0 = not known */
    int64_t submit_ns;         /* the host's time so far in calls that submit work; 0 = no device */
    const char *settings;      /* "NCCL_ALGO=Ring": what steers the library; NULL = nothing */
    struct exec_device_state state; /* of this process's device, over the steps so far */
};

/* The products of which EXEC_COMPUTE_GEMM makes its ops, on one rank: processor time of one that
 * was just measured, and the time of one by which ops are counted from now on. */
struct exec_product_time {
    double now_ns, set_ns;
};

/* When one piece of work ran. end_ns > 0 exactly when it has finished; -1: it failed, and that
 * is why everything stopped. */
struct exec_stamp {
    int64_t issue_ns;  /* its stream reached it */
    int64_t start_ns;  /* what it waits for was done: local entry */
    int64_t all_in_ns; /* last member arrived; -1 unknown, or no communication */
    int64_t end_ns;
    int64_t over_ns;   /* real work beyond the time requested; 0 otherwise */
};

/* The gradient of one parameter in one backward on one rank: a function of these alone. The
 * table (exec/cpu/gradients.h) is shared by all gradients of a run; a backend with its own
 * memory copies it. */
struct exec_gradient {
    const struct exec_gradient_table *table;
    int32_t param, rank, step, pass; /* pass: backward within the step */
};

/* The real memory work inside a compute or copy op. */
enum exec_part_kind {
    EXEC_PART_FILL, /* to[count] = gradient, or += when `add` */
    /* to[count] = from[count] / divisor, converted, or += when `add`, of one type */
    EXEC_PART_COPY,
    /* to = f32 weights, from = gradient * divisor, state[2]: as the update keeps */
    EXEC_PART_UPDATE,
    EXEC_PART_POISON, /* to[count] = what no weight ever is: all bits set */
    EXEC_PART_CHECK,  /* fail where from[count] holds that */
    /* from[count] must be gradient, or the sum of those of ranks[n_ranks]: *found says where it
       is not first, when poll has said that all is done */
    EXEC_PART_EXPECT,
    EXEC_PART_CARRY,  /* to[i] += from[i modulo n_from] - its gradient, i < count */
    /* to = from * state[0], f32 matrices of `count` rows and columns, row after row; with
       EXEC_COMPUTE_GEMM alone; `to` may change when the task is given */
    EXEC_PART_GEMM,
    /* to[0] += (from[i] / divisor)^2, all i < count; exact where squares are whole numbers over
       a power of two, in whatever order */
    EXEC_PART_SQUARES,
    EXEC_PART_SCALE,  /* to[count] = to / divisor * exec_clip_coefficient (exec/backend/scalar.h) */
    /* of sparse gradients (exec/cpu/sparse_rows.h): a backward's rows to the own list, emptied
       before unless `add` */
    EXEC_PART_ROWS_FILL,
    EXEC_PART_ROWS_SEND, /* the own list, over divisor, to its place among all members' */
    EXEC_PART_ROWS_SUM,  /* sum += what came */
    /* rows that came step, in elements [first, first + count) of the parameter: to = f32 weights
       there, and where to_dtype is another state[0] = its weights; for optimizers that leave a
       weight without a gradient alone */
    EXEC_PART_ROWS_UPDATE,
    EXEC_PART_ROWS_CLEAR, /* rows that came are zero again */
    EXEC_PART_FAIL, /* report an error: tests of stopping */
    EXEC_PART_HANG, /* never end, until aborted: tests of stopping */
    EXEC_PART_FLIP, /* turn the lowest bit of to[0] (EXEC_IN_HOST_MEMORY): tests of verification */
    EXEC_PART_EXIT, /* these end or stop the process (EXEC_CAN_END): tests of stopping */
    EXEC_PART_KILL,
    EXEC_PART_STOP,
};

enum { EXEC_SEEN = 16, EXEC_MAX_SUMMED = 64 };

/* Zeroed: none. */
struct exec_mismatch {
    int64_t place;          /* of the element, counted from 1 */
    double got;
    double seen[EXEC_SEEN]; /* the first elements of all */
};

/* Clip at `norm`; squares: where the squares of all gradients are summed up when the part runs. */
struct exec_clip {
    const void *squares;
    enum lw_dtype dtype;
    double norm;
};

struct exec_part {
    enum exec_part_kind kind;
    bool add;
    enum lw_dtype to_dtype, from_dtype;
    int32_t divisor;
    void *to, *state[2];
    const void *from;
    int64_t count, n_from;
    int32_t message;             /* EXPECT: which the host knows it by */
    /* EXPECT: whose gradients; n_ranks at most EXEC_MAX_SUMMED, 0 = gradient */
    const int32_t *ranks;
    int32_t n_ranks;
    struct exec_mismatch *found;
    struct exec_update update;
    struct exec_gradient gradient;
    struct exec_clip clip;
    const struct exec_rows *rows; /* ROWS_* */
    int64_t first;
};

/* One compute or copy op: the parts, then compute until the whole would have taken work_ns with
 * nothing beside it. work_ns = 0: the parts alone. idle: the rest is slept, not computed. */
struct exec_task {
    int64_t work_ns;
    int32_t n_parts;
    const struct exec_part *parts;
    bool idle;
    enum lw_dtype dtype;       /* of the op; with the next two a hint of what computes: */
    int64_t flops, bytes;      /* arithmetic and memory traffic; -1 = not known */
    const struct lw_product *table; /* [n_table] products of the plan; they outlive the run */
    const int32_t *products;   /* [n_products] into it: of the op, in order; none = not known */
    int32_t n_table, n_products;
};

/* One of the groups of a communicator class: ranks of the world in group order; borrowed. */
struct exec_members {
    const int32_t *ranks;
    int32_t n;
};

/* Payload of a communication. In place; `count` elements are the whole of the op: the buffer of
 * an all-reduce, the gathered whole of an all-gather or reduce-scatter, where member i of n
 * holds the range exec_range(count, n, i). All-to-all: n equal blocks, of which block j of
 * member i becomes block i of member j. What reduce and reduce_scatter leave outside of the
 * result is undefined. `peer` is a rank of the world: root, receiver or sender. */
struct exec_message {
    void *mem;
    int64_t count;
    enum lw_dtype dtype;
    int32_t peer;
};

enum exec_state { EXEC_RUNNING, EXEC_DONE, EXEC_FAILED };

/* What one rank does with a message: a collective (peer = root of a rooted one), a send or a
 * receive. stamp NULL: not wanted. */
struct exec_transfer {
    enum lw_op_kind op;
    struct exec_message message;
    struct exec_stamp *stamp;
};

enum { EXEC_REASON = 256, EXEC_MOST_TRANSFERS = 64 };

struct exec_backend {
    uint32_t api_version;
    size_t size; /* of this struct, as the backend was compiled */
    const char *name, *about;
    uint32_t capabilities;

    /* Can it run here? false: `reason` says what is missing. Starts nothing. */
    bool (*probe)(char reason[EXEC_REASON]);

    enum lw_status (*open)(const struct exec_open *how, struct exec_world **w, struct lw_err *err);
    void (*close)(struct exec_world *w);  /* stops what runs, joins, frees all; NULL is fine */
    void (*abort)(struct exec_world *w, const char *why); /* from any thread: everything stops */
    void (*facts)(const struct exec_world *w, struct exec_facts *facts);
    int64_t (*now_ns)(const struct exec_world *w);

    /* Memory of a rank, zeroed; what is left is freed by close. Read and write are for set-up and
     * verification: call them only when nothing is in flight. */
    enum lw_status (*mem_alloc)(struct exec_world *w, int32_t rank, int64_t bytes, void **mem,
                                struct lw_err *err);
    void (*mem_free)(struct exec_world *w, int32_t rank, void *mem);
    enum lw_status (*mem_read)(struct exec_world *w, int32_t rank, void *host, const void *mem,
                               int64_t bytes, struct lw_err *err);
    enum lw_status (*mem_write)(struct exec_world *w, int32_t rank, void *mem, const void *host,
                                int64_t bytes, struct lw_err *err);

    /* Streams and events live until close. An event wait waits for the record given last before it;
     * a wait without an earlier record returns at once. */
    enum lw_status (*stream_create)(struct exec_world *w, int32_t rank, const char *name,
                                    int32_t priority, struct exec_stream **s, struct lw_err *err);
    enum lw_status (*event_create)(struct exec_world *w, int32_t rank, struct exec_event **e,
                                   struct lw_err *err);
    enum lw_status (*event_record)(struct exec_stream *s, struct exec_event *e, struct lw_err *err);
    enum lw_status (*event_wait)(struct exec_stream *s, struct exec_event *e, struct lw_err *err);

    enum lw_status (*compute)(struct exec_stream *s, const struct exec_task *task,
                              struct exec_stamp *stamp, struct lw_err *err);

    /* (optional) With EXEC_COMPUTE_GEMM, while nothing is in flight: measure the product on all
     * ranks at once (a barrier where ranks are processes) and count ops by it; t[n_local]. It takes
     * some ms. */
    enum lw_status (*time_product)(struct exec_world *w, struct exec_product_time *t,
                                   struct lw_err *err);

    /* Work given after `hold` begins no earlier than `release`, and then on all ranks at once (a
     * barrier where ranks are processes). */
    void (*hold)(struct exec_world *w);
    enum lw_status (*release)(struct exec_world *w, struct lw_err *err);
    /* (optional) After hold: what was given since, or since the last call, is one step, submitted
     * as one graph when released. A step begins when the graph before has ended. Its stamps are
     * complete when all of it has ended. */
    enum lw_status (*step_graph)(struct exec_world *w, struct lw_err *err);

    /* Communicators: one handle per group and process; every process calls in the same order. Ops
     * of one communicator run one at a time on each member, in the order given, across streams.
     * members[n]: ranks of the world in group order, copied. */
    enum lw_status (*comm_create)(struct exec_world *w, const int32_t *members, int32_t n,
                                  struct exec_comm **c, struct lw_err *err);
    /* (optional) All groups of one communicator class in one call: groups share no rank, comms[n]
     * receives their handles. NULL: comm_create is called for each group. */
    enum lw_status (*comm_create_class)(struct exec_world *w, const struct exec_members *groups,
                                        int32_t n, struct exec_comm **comms, struct lw_err *err);
    /* (optional) Connect `rank`, which lives in this process, to the ranks that it sends to or
     * receives from on this communicator, both ways, before the first step. peers[n] ascending.
     * Returns when all connections stand. Every process calls for its communicators in one
     * order. */
    enum lw_status (*comm_connect)(struct exec_world *w, struct exec_comm *c, int32_t rank,
                                   const int32_t *peers, int32_t n, struct lw_err *err);
    /* (optional) What the library itself estimates that a collective of `rank`, which lives in
     * this process, takes; m->mem is not read, and nothing runs. Every member calls, in one order.
     * LW_ENOTSUP: the library has no estimate of it. */
    enum lw_status (*comm_estimate)(struct exec_world *w, struct exec_comm *c, int32_t rank,
                                    enum lw_op_kind op, const struct exec_message *m, int64_t *ns,
                                    struct lw_err *err);
    void (*comm_destroy)(struct exec_world *w, struct exec_comm *c);
    /* (optional) All-reduces of the communicator go by this algorithm, said before its first op.
     * LW_ENOTSUP: one that the backend does not have, or that the group's nodes do not fit. */
    enum lw_status (*comm_reducer)(struct exec_world *w, struct exec_comm *c,
                                   enum lw_reducer_kind reducer, struct lw_err *err);

    /* One collective of those that the capabilities name, or up to EXEC_MOST_TRANSFERS sends and
     * receives, which complete together, by rendezvous. x[n] is copied. LW_EINVAL: the stream's
     * rank, a root or a peer is not a member; LW_ENOTSUP: an all-to-all without equal blocks. */
    enum lw_status (*communicate)(struct exec_stream *s, struct exec_comm *c,
                                  const struct exec_transfer *x, int32_t n, struct lw_err *err);

    /* Wait until everything given so far is done (EXEC_DONE), something failed (EXEC_FAILED: err
     * holds its own words) or the clock passes deadline_ns (EXEC_RUNNING). The only call that
     * blocks. */
    enum exec_state (*poll)(struct exec_world *w, int64_t deadline_ns, struct lw_err *err);
    /* (optional) How much of what was given is not done: it changes whenever an op ends. */
    int64_t (*pending)(const struct exec_world *w);
};

/* The backends this program knows, in a fixed order, ready or not. */
struct exec_listing {
    const char *name, *about;
    const struct exec_backend *backend; /* NULL: not there, and reason says why */
    char reason[EXEC_REASON];
};
enum { EXEC_N_BACKENDS = 3 };
void exec_backend_list(struct exec_listing list[EXEC_N_BACKENDS]);

/* A backend that is ready to run. LW_EINVAL: unknown name, with the known ones; LW_ENOTSUP: why it
 * cannot run here. */
enum lw_status exec_backend_find(const char *name, const struct exec_backend **b,
                                 struct lw_err *err);
/* LW_EINVAL: unknown name, with the known ones; whether it can run is not tried. */
enum lw_status exec_backend_known(const char *name, struct lw_err *err);

/* Refuses a table of another version, of another size, or whose functions and capability bits
 * contradict each other. */
enum lw_status exec_backend_check(const struct exec_backend *b, struct lw_err *err);

/* The backend has this collective, or sends and receives; false of other ops. */
bool exec_backend_can(const struct exec_backend *b, enum lw_op_kind kind);

const char *exec_honesty_name(enum exec_honesty h); /* "real", "spin", "sleep", ... */
const char *exec_compute_name(enum exec_compute c); /* "gemm", "spin", "sleep" */
enum lw_status exec_compute_parse(const char *name, enum exec_compute *c, struct lw_err *err);

/* A plugin exports one symbol of this type, named by EXEC_PLUGIN_SYMBOL. `host` is what it may
 * call of the program (nothing else is linked into it); it returns its table, or NULL when it
 * cannot work with this api version. Plugins are never unloaded. */
struct exec_host {
    uint32_t api_version;
    size_t size;
    void *(*alloc)(size_t size);
    void *(*realloc)(void *p, size_t size);
    void (*free)(void *p);
    int (*reserve)(void *items, int64_t *cap, int64_t need, size_t size); /* lw_reserve */
    enum lw_status (*fail)(struct lw_err *err, enum lw_status code, const char *fmt, ...);
};
typedef const struct exec_backend *exec_plugin_fn(const struct exec_host *host);
#define EXEC_PLUGIN_SYMBOL "lapwing_backend_v1"

extern const struct exec_backend exec_backend_threads;
