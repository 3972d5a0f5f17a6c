#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the files of the fake driver share: fake_cuda.c runs commands, fake_cuda_graph.c captures
 * them. */

enum fake_kind { KERNEL, COPY, SET, RECORD, WAIT, HOST, LAUNCH, MARK, JOIN }; /* the last two are
                                                                               * captured */

typedef void fake_kernel(const void *args, int64_t n_threads);

struct CUfunc_st {
    const char *name;
    size_t size;
    fake_kernel *run;
};

struct fake_command {
    struct fake_command *next;
    enum fake_kind kind;
    const struct CUfunc_st *function;
    int64_t n_threads;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char value;
    CUevent event;
    uint64_t target;
    CUhostFn host;
    CUgraph graph;
    int mark;
    _Alignas(16) unsigned char args[];
};

/* A condition of the lock, by the kernel's futex: who is woken does not find the lock taken by who
 * woke it, as with pthread_cond_t. All zero is a valid one. */
struct fake_bell {
    _Atomic uint32_t n_rung;
    uint32_t n_asleep; /* the lock guards it */
};

void fake_bell_wait(struct fake_bell *b); /* the lock is held; it is free meanwhile */
void fake_bell_ring(struct fake_bell *b); /* the lock is held, and given back before it wakes */

struct CUstream_st {
    pthread_t thread;
    struct fake_command *head, **tail;
    struct fake_bell moved; /* something was given or done, or it closes */
    int64_t given, done;
    int id, priority;
    bool closing;
    struct fake_capture *capture; /* NULL: what is given runs */
    int lane;                     /* of the capture's graph */
};

struct CUevent_st { /* lives until it is destroyed and no command refers to it */
    int users;
    struct fake_bell moved;
    uint64_t given, done; /* records; all up to `done` have run */
    uint64_t *early;      /* others that have run: streams record in any order */
    int n_early;
    int64_t at_ns; /* of the latest record */
    bool timed;
    uint64_t captured; /* number of the capture in which it was recorded last; 0 = none */
    int mark;
};

extern pthread_mutex_t fake_lock;

struct fake_command *fake_command_new(enum fake_kind kind, size_t args);
void fake_give(CUstream s, struct fake_command *c); /* to its queue, or its capture */
/* One command that waits for nothing, as stream number `id`. */
void fake_run(int id, struct fake_command *c);
void fake_record(CUevent e, uint64_t target);
CUresult fake_enter(const char *call);

/* fake_cuda_graph.c. fake_enter, for calls that a thread may not make while it captures. */
CUresult fake_enter_unsafe(const char *call);
CUresult fake_wait_captured(CUstream s, CUevent e, bool *done); /* *done: it was one of a capture */
CUresult fake_record_captured(CUstream s, CUevent e, bool external, bool *done);
void fake_append(CUstream s, struct fake_command *c); /* the lock is held */
void fake_graph_run(CUgraph g);                       /* all of it; then one user less */
extern int fake_n_graphs;

/* Of the other fakes: drop(p) when the graph that s is captured into goes. false: s runs. */
bool fake_cuda_keep(CUstream s, void (*drop)(void *), void *p);
void fake_cuda_drain(void); /* until no stream has a command left */

#endif
