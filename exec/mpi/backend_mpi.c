/* The MPI backend, a plugin: one process per rank, on cores (cpu_world.h); its wire is Open MPI.
 *
 * MPI's nonblocking collectives do not move by themselves: measured on Open MPI 4.1, none of an
 * MPI_Iallreduce is hidden by compute. So the thread of a communication stream issues blocking
 * ones, and MPI must grant MPI_THREAD_MULTIPLE, because several streams of a rank may block at
 * once.
 *
 * Entry. A blocking call burns its core until the last member has come, and nothing can end it.
 * Members therefore meet first: they compare op, count, type and root, so that a plan that
 * disagrees with itself fails by name, and learn when the last one came. Only then they call
 * MPI's collective. Members of one machine meet in shared memory (mpi_shared.h, exec_group_meet):
 * a member that waits sleeps, and the last one wakes it in microseconds. Others meet by an
 * MPI_Iallreduce of two numbers, tested by a thread that sleeps between tests and looks at
 * `stop`; a send and its receive by empty messages both ways. For them all are in when the
 * meeting is over: it counts as waiting.
 *
 * A member that is lost inside MPI's own call leaves the others in it; cpu_close and mpi_worker.h
 * say what becomes of their threads. */
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exec/cpu/boot_id.h"
#include "exec/cpu/cpu_world.h"
#include "exec/cpu/thread_group.h"
#include "exec/backend/element.h"
#include "exec/mpi/mpi_shared.h"
#include "exec/mpi/mpi_worker.h"
#include "exec/plugin/plugin_host.h"
#include "shared/base/arena.h"

enum { TAG_READY, TAG_DATA, SPIN_NS = 10000, NAP_NS = 15000 };
enum { MET_SAME, MET_OTHER, N_MET }; /* what members bring: minima are taken */

struct cpu_link {
    MPI_Comm comm;
    struct exec_world *world;
    int32_t n;
    int *counts, *firsts; /* [n] of the current op */
    MPI_Op sum[LW_N_DTYPES];
    int64_t mine[N_MET], all[N_MET]; /* live on when a meeting is given up */
    struct mpi_shared near;     /* of members on one machine: */
    struct exec_group *group; /* where they meet; NULL: by messages */
};

/* --- types and sums --------------------------------------------------------------------------- */

static MPI_Datatype type_of(enum lw_dtype t)
{
    switch (t) {
    case LW_F32: return MPI_FLOAT;
    case LW_F64: return MPI_DOUBLE;
    case LW_I64: return MPI_INT64_T;
    case LW_I32: return MPI_INT32_T;
    case LW_U8: return MPI_UINT8_T;
    default: return MPI_UINT16_T; /* halves: their bits */
    }
}

static void sum_f16(void *in, void *io, int *n, MPI_Datatype *type)
{
    (void)type;
    exec_add(LW_F16, io, in, *n);
}

static void sum_bf16(void *in, void *io, int *n, MPI_Datatype *type)
{
    (void)type;
    exec_add(LW_BF16, io, in, *n);
}

static enum lw_status make_sums(struct cpu_link *l, struct lw_err *err)
{
    for (int t = 0; t < LW_N_DTYPES; t++)
        l->sum[t] = MPI_SUM;
    l->sum[LW_F16] = l->sum[LW_BF16] = MPI_OP_NULL;
    LW_TRY(mpi_ok(MPI_Op_create(sum_f16, 1, &l->sum[LW_F16]), "MPI_Op_create", err));
    return mpi_ok(MPI_Op_create(sum_bf16, 1, &l->sum[LW_BF16]), "MPI_Op_create", err);
}

/* --- waiting for the others ------------------------------------------------------------------- */

static enum lw_status wait_all(struct cpu_link *l, MPI_Request *requests, int n, const char *what,
                               struct lw_err *err)
{
    int64_t spin_until = exec_now_ns() + SPIN_NS;
    int done = 0;

    for (;;) {
        LW_TRY(mpi_ok(MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE), what, err));
        if (done)
            return LW_OK;
        if (atomic_load(&l->world->stop))
            return lw_fail(err, LW_EFAILED, "stopped while waiting for another rank");
        if (exec_now_ns() > spin_until)
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
}

/* 62 bits of what all members must have in common. */
static int64_t fingerprint(enum lw_op_kind op, const struct exec_message *m)
{
    bool rooted = op == LW_OP_BROADCAST || op == LW_OP_REDUCE;
    uint64_t h = exec_mix((uint64_t)op);

    h = exec_mix(h ^ (uint64_t)m->count);
    h = exec_mix(h ^ (uint64_t)m->dtype);
    h = exec_mix(h ^ (uint64_t)(rooted ? m->peer + 1 : 0));
    return (int64_t)(h >> 2);
}

static enum lw_status meet(struct cpu_link *l, int32_t i, enum lw_op_kind op,
                           const struct exec_message *m, int64_t *all_in_ns, struct lw_err *err)
{
    int64_t print = fingerprint(op, m);
    MPI_Request request;

    if (l->group)
        return exec_group_meet(l->group, i, op, m, all_in_ns, err);
    l->mine[MET_SAME] = print;
    l->mine[MET_OTHER] = -print;
    LW_TRY(mpi_ok(MPI_Iallreduce(l->mine, l->all, N_MET, MPI_INT64_T, MPI_MIN, l->comm, &request),
                  "MPI_Iallreduce", err));
    LW_TRY(wait_all(l, &request, 1, "MPI_Testall", err));
    if (l->all[MET_SAME] != print || l->all[MET_OTHER] != -print)
        return lw_fail(
            err, LW_EFAILED,
            "members disagree: here it is %s of %lld %s, root %d; another member has another "
            "op, count, type or root",
            lw_op_name(op), (long long)m->count, lw_dtype_name(m->dtype), m->peer);
    *all_in_ns = exec_now_ns();
    return LW_OK;
}

/* --- collectives ------------------------------------------------------------------------------ */

static void deal(struct cpu_link *l, int64_t count)
{
    for (int32_t i = 0; i < l->n; i++) {
        l->firsts[i] = (int)exec_range_first(count, l->n, i);
        l->counts[i] = (int)exec_range_first(count, l->n, i + 1) - l->firsts[i];
    }
}

/* MPI leaves the member's range at the start of the buffer; it belongs in its place. */
static int reduce_scatter(struct cpu_link *l, int32_t i, const struct exec_message *m)
{
    int64_t size = lw_dtype_size(m->dtype);

    deal(l, m->count);
    int code = MPI_Reduce_scatter(MPI_IN_PLACE, m->mem, l->counts, type_of(m->dtype),
                                  l->sum[m->dtype], l->comm);
    if (code == MPI_SUCCESS && i > 0)
        memmove((char *)m->mem + l->firsts[i] * size, m->mem, (size_t)(l->counts[i] * size));
    return code;
}

static int all_gather(struct cpu_link *l, const struct exec_message *m)
{
    deal(l, m->count);
    return MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, m->mem, l->counts, l->firsts,
                          type_of(m->dtype), l->comm);
}

static int reduce(struct cpu_link *l, int32_t i, const struct exec_message *m)
{
    bool root = i == m->peer;

    return MPI_Reduce(root ? MPI_IN_PLACE : m->mem, root ? m->mem : NULL, (int)m->count,
                      type_of(m->dtype), l->sum[m->dtype], m->peer, l->comm);
}

static int move_data(struct cpu_link *l, int32_t i, enum lw_op_kind op,
                     const struct exec_message *m)
{
    MPI_Datatype t = type_of(m->dtype);

    switch (op) {
    case LW_OP_ALL_REDUCE:
        return MPI_Allreduce(MPI_IN_PLACE, m->mem, (int)m->count, t, l->sum[m->dtype], l->comm);
    case LW_OP_REDUCE: return reduce(l, i, m);
    case LW_OP_REDUCE_SCATTER: return reduce_scatter(l, i, m);
    case LW_OP_ALL_GATHER: return all_gather(l, m);
    case LW_OP_BROADCAST: return MPI_Bcast(m->mem, (int)m->count, t, m->peer, l->comm);
    case LW_OP_ALL_TO_ALL:
        return MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, m->mem, (int)(m->count / l->n), t,
                            l->comm);
    default: return MPI_SUCCESS; /* a barrier: they have met */
    }
}

static enum lw_status fits(enum lw_op_kind op, const struct exec_message *m, struct lw_err *err)
{
    bool activations = op == LW_OP_SEND || op == LW_OP_RECV || op == LW_OP_ALL_TO_ALL;

    if (m->count > INT_MAX)
        return lw_fail(err, LW_ENOTSUP, "%s of %lld elements: MPI counts to %d; choose %s",
                       lw_op_name(op), (long long)m->count, INT_MAX,
                       activations ? "a smaller micro-batch (lapwing model --batch)"
                                   : "smaller buckets (--bucket-cap)");
    return LW_OK;
}

static enum lw_status collective(struct cpu_link *l, int32_t i, enum lw_op_kind op,
                                 const struct exec_message *m, int64_t *all_in_ns,
                                 struct lw_err *err)
{
    LW_TRY(fits(op, m, err));
    LW_TRY(meet(l, i, op, m, all_in_ns, err));
    return l->n > 1 ? mpi_ok(move_data(l, i, op, m), lw_op_name(op), err) : LW_OK;
}

/* --- sends and receives ----------------------------------------------------------------------- */

/* In shared memory: an exchange of nothing. */
static enum lw_status meet_near_peers(struct cpu_link *l, int32_t i, const struct exec_transfer *x,
                                      int32_t n, int64_t *all_in_ns, struct lw_err *err)
{
    struct exec_transfer empty[EXEC_MOST_TRANSFERS];

    for (int32_t k = 0; k < n; k++)
        empty[k] =
            (struct exec_transfer){x[k].op, {.peer = x[k].message.peer, .dtype = LW_U8}, NULL};
    return exec_group_exchange(l->group, i, empty, n, all_in_ns, err);
}

/* Each pair of a send and a receive meets by an empty message both ways; then the data moves
 * with both sides inside MPI. Messages of one pair match in the order given. */
static enum lw_status meet_peers(struct cpu_link *l, int32_t i, const struct exec_transfer *x,
                                 int32_t n, int64_t *all_in_ns, struct lw_err *err)
{
    MPI_Request requests[2 * EXEC_MOST_TRANSFERS];

    if (l->group)
        return meet_near_peers(l, i, x, n, all_in_ns, err);
    for (int32_t k = 0; k < n; k++) {
        int peer = x[k].message.peer;
        LW_TRY(mpi_ok(MPI_Irecv(NULL, 0, MPI_BYTE, peer, TAG_READY, l->comm, &requests[2 * k]),
                      "MPI_Irecv", err));
        LW_TRY(mpi_ok(MPI_Isend(NULL, 0, MPI_BYTE, peer, TAG_READY, l->comm, &requests[2 * k + 1]),
                      "MPI_Isend", err));
    }
    LW_TRY(wait_all(l, requests, 2 * n, "MPI_Testall", err));
    *all_in_ns = exec_now_ns();
    return LW_OK;
}

static int start(struct cpu_link *l, const struct exec_transfer *x, MPI_Request *request)
{
    const struct exec_message *m = &x->message;
    MPI_Datatype t = type_of(m->dtype);

    if (x->op == LW_OP_RECV)
        return MPI_Irecv(m->mem, (int)m->count, t, m->peer, TAG_DATA, l->comm, request);
    return MPI_Isend(m->mem, (int)m->count, t, m->peer, TAG_DATA, l->comm, request);
}

static enum lw_status got_all(const struct exec_transfer *x, int32_t n, const MPI_Status *statuses,
                              struct lw_err *err)
{
    for (int32_t k = 0; k < n; k++) {
        const struct exec_message *m = &x[k].message;
        int count = 0;
        if (x[k].op != LW_OP_RECV)
            continue;
        MPI_Get_count(&statuses[k], type_of(m->dtype), &count);
        if (count != m->count)
            return lw_fail(err, LW_EFAILED, "member %d sent %d elements, %lld are wanted", m->peer,
                           count, (long long)m->count);
    }
    return LW_OK;
}

static enum lw_status exchange(struct cpu_link *l, int32_t i, const struct exec_transfer *x,
                               int32_t n, int64_t *all_in_ns, struct lw_err *err)
{
    MPI_Request requests[EXEC_MOST_TRANSFERS];
    MPI_Status statuses[EXEC_MOST_TRANSFERS];

    for (int32_t k = 0; k < n; k++)
        LW_TRY(fits(x[k].op, &x[k].message, err));
    LW_TRY(meet_peers(l, i, x, n, all_in_ns, err));
    for (int32_t k = 0; k < n; k++)
        LW_TRY(mpi_ok(start(l, &x[k], &requests[k]), lw_op_name(x[k].op), err));
    LW_TRY(mpi_ok(MPI_Waitall(n, requests, statuses), "MPI_Waitall", err));
    return got_all(x, n, statuses, err);
}

/* --- communicators ---------------------------------------------------------------------------- */

struct group_job {
    const struct exec_comm *c;
    struct cpu_link *link;
    int tag;
};

static enum lw_status make_group(void *argument, struct lw_err *err)
{
    struct group_job *j = argument;
    MPI_Group all, group;

    LW_TRY(mpi_ok(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group", err));
    int code = MPI_Group_incl(all, j->c->n, j->c->members, &group);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_create_group(MPI_COMM_WORLD, group, j->tag, &j->link->comm);
        MPI_Group_free(&group);
    }
    MPI_Group_free(&all);
    LW_TRY(mpi_ok(code, "MPI_Comm_create_group", err));
    MPI_Comm_set_errhandler(j->link->comm, MPI_ERRORS_RETURN);
    LW_TRY(mpi_shared_open(&j->link->near, j->link->comm, exec_group_shared_bytes(j->c->n), err));
    return make_sums(j->link, err);
}

static enum lw_status make_meeting(struct cpu_link *l, struct lw_err *err)
{
    struct exec_shape shape = {LW_REDUCER_RING, l->n, 1};

    return l->near.mem ? exec_group_new(&shape, (struct exec_pace){0}, &l->world->stop, l->near.mem,
                                        &l->group, err)
                       : LW_OK;
}

static void link_free(struct cpu_link *l)
{
    if (!l)
        return;
    if (!mpi_worker_is_lost()) {
        for (int t = LW_F16; t <= LW_BF16; t++)
            if (l->sum[t] != MPI_OP_NULL)
                MPI_Op_free(&l->sum[t]);
        if (l->comm != MPI_COMM_NULL)
            MPI_Comm_free(&l->comm);
    }
    exec_group_free(l->group);
    mpi_shared_close(&l->near);
    lw_free(l->counts);
    lw_free(l->firsts);
    lw_free(l);
}

static int tag_of(const struct exec_comm *c)
{
    uint64_t h = 0;

    for (int32_t i = 0; i < c->n; i++)
        h = exec_mix(h ^ (uint64_t)(uint32_t)c->members[i]);
    return (int)(h % 32768); /* what every MPI allows */
}

static enum lw_status link_new(struct exec_world *w, const struct exec_comm *c,
                               struct cpu_link **link, struct lw_err *err)
{
    struct cpu_link *l = lw_calloc(1, sizeof *l);
    struct group_job *job = lw_calloc(1, sizeof *job);
    enum lw_status s = LW_OK;

    if (l) {
        l->comm = MPI_COMM_NULL;
        l->sum[LW_F16] = l->sum[LW_BF16] = MPI_OP_NULL;
        l->world = w;
        l->n = c->n;
        l->counts = lw_calloc((size_t)c->n, sizeof *l->counts);
        l->firsts = lw_calloc((size_t)c->n, sizeof *l->firsts);
    }
    if (!l || !job || !l->counts || !l->firsts)
        s = lw_fail_nomem(err);
    if (s == LW_OK) {
        *job = (struct group_job){c, l, tag_of(c)};
        s = mpi_worker_call(make_group, job, "MPI_Comm_create_group", w->how.timeout_ns, err);
    }
    if (s == LW_ETIMEOUT)
        return s; /* the call that never returned keeps both */
    lw_free(job);
    if (s == LW_OK)
        s = make_meeting(l, err);
    if (s != LW_OK)
        link_free(l);
    else
        *link = l;
    return s;
}

static const struct cpu_wire wire = {.may_hang = true, .link_new = link_new,
                                     .link_free = link_free, .collective = collective,
                                     .exchange = exchange};

/* --- opening ---------------------------------------------------------------------------------- */

static bool probe(char reason[EXEC_REASON])
{
    reason[0] = '\0';
    return true;
}

static enum lw_status check_how(const struct exec_open *how, struct lw_err *err)
{
    if (how->process || how->n_ranks == 1)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP, "mpi runs one process per rank, and this is one process for %d "
                                    "ranks: start with mpirun -n %d, or srun", how->n_ranks,
                   how->n_ranks);
}

/* A program of one MPI started by the launcher of another silently becomes n worlds of one. */
static enum lw_status check_world(const struct exec_open *how, struct lw_err *err)
{
    int32_t rank = how->process ? how->process->rank : 0;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int mpi_rank, mpi_size, n;

    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
    if (mpi_rank == rank && mpi_size == how->n_ranks)
        return LW_OK;
    MPI_Get_library_version(version, &n);
    version[strcspn(version, ",")] = '\0';
    return lw_fail(
        err, LW_ENOTSUP,
        "this is rank %d of %d, but MPI (%.60s) sees rank %d in a world of %d: it was not "
        "started by that MPI's own mpirun, or by srun with its plugin",
        rank, how->n_ranks, version, mpi_rank, mpi_size);
}

struct seat { /* where a rank runs */
    uint64_t machine;
    int32_t core; /* -1: any */
    cpu_set_t cores;
};

struct seats_job {
    struct seat mine, *all; /* [n] */
    int n;
};

static enum lw_status gather_seats(void *argument, struct lw_err *err)
{
    struct seats_job *j = argument;

    return mpi_ok(MPI_Allgather(&j->mine, sizeof j->mine, MPI_BYTE, j->all, sizeof j->mine,
                                MPI_BYTE, MPI_COMM_WORLD), "MPI_Allgather", err);
}

static struct seat seat_here(const struct exec_world *w)
{
    struct seat s;
    char machine[EXEC_BOOT_ID];

    memset(&s, 0, sizeof s);
    exec_boot_id(machine); /* containers of several machines may share a host name */
    if (!machine[0])
        gethostname(machine, sizeof machine - 1);
    for (const char *c = machine; *c; c++)
        s.machine = exec_mix(s.machine ^ (uint64_t)(unsigned char)*c);
    int32_t place = w->how.process ? w->how.process->local_rank : 0;
    s.core = w->how.pin ? w->cores[place % w->n_cores] : -1;
    CPU_ZERO(&s.cores);
    for (int32_t i = 0; i < w->n_cores; i++)
        CPU_SET(w->cores[i], &s.cores);
    return s;
}

/* Launchers bind each process to cores of its own: which are used is known when all have said
 * so. */
static void compare_seats(struct exec_world *w, const struct seats_job *j)
{
    cpu_set_t all, taken;
    int32_t here = 0;

    CPU_ZERO(&all);
    CPU_ZERO(&taken);
    w->oversubscribed = false;
    for (int i = 0; i < j->n; i++) {
        const struct seat *s = &j->all[i];
        if (s->machine != j->mine.machine)
            continue;
        here++;
        CPU_OR(&all, &all, &s->cores);
        w->oversubscribed |= s->core >= 0 && CPU_ISSET(s->core, &taken);
        if (s->core >= 0)
            CPU_SET(s->core, &taken);
    }
    w->one_machine = here == j->n;
    w->n_machine_cores = CPU_COUNT(&all);
    w->oversubscribed |= here > w->n_machine_cores;
    snprintf(
        w->about, sizeof w->about,
        "%d processes, %d of them on %d cores of this machine, %s; communication threads %d nice "
        "levels above compute (%s)",
        j->n, here, w->n_machine_cores, w->how.pin ? "pinned" : "not pinned", CPU_NICE_STEP,
        w->lifts ? "lifted" : "compute lowered");
}

static enum lw_status find_seats(struct exec_world *w, struct lw_err *err)
{
    struct seats_job *j = lw_calloc(1, sizeof *j);
    struct seat *all = lw_calloc((size_t)w->how.n_ranks, sizeof *all);
    enum lw_status s = j && all ? LW_OK : lw_fail_nomem(err);

    if (s == LW_OK) {
        *j = (struct seats_job){seat_here(w), all, w->how.n_ranks};
        s = mpi_worker_call(gather_seats, j, "MPI_Allgather", w->how.timeout_ns, err);
    }
    if (s == LW_ETIMEOUT)
        return s; /* the call that never returned keeps both */
    if (s == LW_OK)
        compare_seats(w, j);
    lw_free(all);
    lw_free(j);
    return s;
}

static void mpi_close(struct exec_world *w)
{
    if (!w)
        return;
    if (atomic_load(&w->failed) || atomic_load(&w->n_pending) > 0)
        mpi_worker_give_up(); /* MPI_Finalize would wait for a rank that is stopped or gone */
    cpu_close(w);
}

static enum lw_status mpi_open(const struct exec_open *how, struct exec_world **world,
                               struct lw_err *err)
{
    struct exec_world *w;

    LW_TRY(check_how(how, err));
    LW_TRY(mpi_worker_start(how->timeout_ns, err));
    LW_TRY(check_world(how, err));
    LW_TRY(cpu_open(how, &wire, &w, err));
    enum lw_status s = find_seats(w, err);
    if (s != LW_OK)
        mpi_close(w);
    else
        *world = w;
    return s;
}

const struct exec_backend exec_plugin_backend = {
    .api_version = EXEC_API_VERSION,
    .size = sizeof(struct exec_backend),
    .name = "mpi",
    .about = "one process per rank, collectives of Open MPI",
    .capabilities = EXEC_BY_MPIRUN | EXEC_CAN_PRIORITY | EXEC_CAN_ALL_REDUCE | EXEC_CAN_REDUCE |
                    EXEC_CAN_REDUCE_SCATTER | EXEC_CAN_ALL_GATHER | EXEC_CAN_BROADCAST |
                    EXEC_CAN_ALL_TO_ALL | EXEC_CAN_BARRIER | EXEC_CAN_SEND_RECV | EXEC_CAN_ALL_IN |
                    EXEC_CAN_PROCESS | EXEC_CAN_END | EXEC_IN_HOST_MEMORY,
    .probe = probe,
    .open = mpi_open,
    .close = mpi_close,
    CPU_TABLE,
};
