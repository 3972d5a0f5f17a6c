/* lapwing-record-mpi.so: preloaded before a program (LD_PRELOAD), records its calls of MPI.
 *
 * Each MPI_X and PMPI_X is defined here and calls the library's own PMPI_X (dlsym, RTLD_NEXT):
 * programs in C call MPI_X, Open MPI's Fortran interfaces call PMPI_X. A blocking call runs on the
 * host from its entry to its return, and that is its span. A non-blocking one, and the start of a
 * persistent one, has its duration on the host and no span. What cannot be attributed to a
 * communicator is named in the file (LOST). */
#include <mpi.h>
#include <mpi-ext.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "exec/record/record_file.h"
#include "exec/record/record_next.h"

static void *find(const char *name)
{
    return record_next(name, "libmpi.so.40");
}

static void say_version(void)
{
    int version = 0, subversion = 0;

    PMPI_Get_version(&version, &subversion);
    record_library("mpi", version, subversion, 0);
}

/* No thread goes on before the library has been named. */
static void say_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, say_version);
}

/* --- communicators --------------------------------------------------------------------------- */

enum { MOST_MEMBERS = 1024, MOST_REQUESTS = 4096, MOST_SETS = 4096 };

/* Held while a communicator gets its line, and around the lists below. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* How many communicators of the same members have had a line before. */
static int32_t turn_of(uint64_t members)
{
    static struct { uint64_t members; int32_t n; } sets[MOST_SETS];
    static int32_t n;
    int32_t i = 0;

    while (i < n && sets[i].members != members)
        i++;
    if (i == MOST_SETS)
        return 0;
    if (i == n)
        sets[n++].members = members;
    return sets[i].n++;
}

/* MPI has no id that is equal on all members: the ranks of the world in the communicator's order
 * and their number make one, with the number of communicators of the same members that were used
 * before it. */
static uint64_t id_of(MPI_Comm comm, int n)
{
    int members[MOST_MEMBERS], world[MOST_MEMBERS + 1];
    struct { uint64_t members; int64_t turn; } id;
    MPI_Group group, all;
    int known = n < MOST_MEMBERS ? n : MOST_MEMBERS;

    for (int i = 0; i < known; i++)
        members[i] = i;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &all);
    PMPI_Group_translate_ranks(group, known, members, all, world);
    PMPI_Group_free(&group);
    PMPI_Group_free(&all);
    world[known] = n;
    id.members = record_hash(world, ((int64_t)known + 1) * (int64_t)sizeof *world);
    id.turn = turn_of(id.members);
    return id.turn == 0 ? id.members : record_hash(&id, sizeof id);
}

static int32_t comm_of(MPI_Comm comm)
{
    int rank = -1, n = -1;
    int32_t number = record_comm_of((const void *)comm);

    if (number > 0)
        return number;
    pthread_mutex_lock(&mutex);
    number = record_comm_of((const void *)comm);
    if (number == 0) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Comm_size(comm, &n);
        number = record_comm((const void *)comm, id_of(comm, n), rank, n);
    }
    pthread_mutex_unlock(&mutex);
    return number;
}

/* --- calls ----------------------------------------------------------------------------------- */

static const char *dtype_name(MPI_Datatype t)
{
    static const struct { MPI_Datatype type; const char *name; } types[] = {
        {MPI_FLOAT, "f32"},          {MPI_REAL, "f32"},       {MPI_REAL4, "f32"},
        {MPI_DOUBLE, "f64"},         {MPI_REAL8, "f64"},      {MPI_DOUBLE_PRECISION, "f64"},
        {MPI_BYTE, "u8"},            {MPI_CHAR, "u8"},        {MPI_SIGNED_CHAR, "u8"},
        {MPI_UNSIGNED_CHAR, "u8"},   {MPI_CHARACTER, "u8"},   {MPI_PACKED, "u8"},
        {MPI_INT8_T, "u8"},          {MPI_UINT8_T, "u8"},     {MPI_INTEGER1, "u8"},
        {MPI_INT, "i32"},            {MPI_UNSIGNED, "i32"},   {MPI_INT32_T, "i32"},
        {MPI_UINT32_T, "i32"},       {MPI_INTEGER, "i32"},    {MPI_INTEGER4, "i32"},
        {MPI_LOGICAL, "i32"},        {MPI_LONG, "i64"},       {MPI_UNSIGNED_LONG, "i64"},
        {MPI_INT64_T, "i64"},        {MPI_UINT64_T, "i64"},   {MPI_LONG_LONG, "i64"},
        {MPI_UNSIGNED_LONG_LONG, "i64"}, {MPI_INTEGER8, "i64"}, {MPI_AINT, "i64"},
    };

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == t)
            return types[i].name;
    return "?";
}

enum how { BLOCKS, RETURNS };

static int64_t begin(void)
{
    say_library();
    return record_now_ns();
}

/* Nothing moves to or from MPI_PROC_NULL; MPI_ANY_SOURCE has no number. */
static void write_call(const char *op, int64_t entered, int64_t end, int64_t count, MPI_Datatype t,
                       int peer, int32_t comm, enum how how)
{
    struct record_call c = {.op = op, .dtype = dtype_name(t), .peer = peer < 0 ? -1 : peer,
                            .count = peer == MPI_PROC_NULL || count < 0 ? 0 : count,
                            .comm = comm, .entered_ns = entered, .host_ns = end - entered};
    int64_t number = record_call(&c);

    if (how == BLOCKS)
        record_span(number, entered, end);
}

static int note(const char *op, int64_t entered, int64_t count, MPI_Datatype t, int peer,
                MPI_Comm comm, enum how how, int result)
{
    int64_t end = record_now_ns();

    if (result == MPI_SUCCESS)
        write_call(op, entered, end, count, t, peer, comm_of(comm), how);
    return result;
}

/* The mean over the members, which may have different numbers of elements. */
static int64_t mean_of(const int counts[], MPI_Comm comm)
{
    int n = 1, apart = 0, others;
    int64_t sum = 0;

    PMPI_Comm_size(comm, &n);
    PMPI_Comm_test_inter(comm, &apart);
    if (apart && PMPI_Comm_remote_size(comm, &others) == MPI_SUCCESS && others < n)
        n = others; /* the counts are of one side or of the other */
    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum / n;
}

/* Persistent calls, by their request. */
static struct persistent {
    MPI_Request request;
    const char *op;
    int64_t count;
    MPI_Datatype type;
    int peer;
    int32_t comm; /* the communicator may be freed before its requests */
} requests[MOST_REQUESTS];
static int32_t n_requests;

static int keep(int result, const char *op, int64_t count, MPI_Datatype t, int peer, MPI_Comm comm,
                const MPI_Request *request)
{
    static _Atomic bool said;
    int32_t number = result == MPI_SUCCESS ? comm_of(comm) : 0;

    pthread_mutex_lock(&mutex);
    bool full = number > 0 && n_requests == MOST_REQUESTS;
    if (number > 0 && !full)
        requests[n_requests++] = (struct persistent){*request, op, count, t, peer, number};
    pthread_mutex_unlock(&mutex);
    if (full && !atomic_exchange(&said, true))
        record_lost("MPI_Start");
    return result;
}

/* Takes the place of a request, which is forgotten if `gone`. false: not persistent. */
static bool find_request(MPI_Request request, bool gone, struct persistent *found)
{
    int32_t i = 0;

    pthread_mutex_lock(&mutex);
    while (i < n_requests && requests[i].request != request)
        i++;
    bool known = i < n_requests;
    if (known)
        *found = requests[i];
    if (known && gone)
        requests[i] = requests[--n_requests];
    pthread_mutex_unlock(&mutex);
    return known;
}

static bool note_start(MPI_Request request, int64_t at, int64_t end)
{
    struct persistent p;
    bool known = find_request(request, false, &p);

    if (known)
        write_call(p.op, at, end, p.count, p.type, p.peer, p.comm, RETURNS);
    return known;
}

#define ALSO_PMPI(name, ...) int P##name(__VA_ARGS__) __attribute__((alias(#name)))
#define OPEN(...) __VA_ARGS__

/* CALL_(...) gets the arguments of CALL(...) after lists such as SUMS are expanded. */

/* One function. `count`, `type` and `peer` are of its parameters; c is the communicator. */
#define CALL(...) CALL_(__VA_ARGS__)
#define CALL_(name, how, op_, count, type, peer, parameters, arguments)                    \
    int name(OPEN parameters)                                                             \
    {                                                                                     \
        REAL(P##name);                                                                    \
        int64_t at = begin();                                                             \
        int result = real_P##name(OPEN arguments);                                        \
        return note(op_, at, count, type, peer, c, how, result);                          \
    }                                                                                     \
    ALSO_PMPI(name, OPEN parameters);

/* A blocking function and its non-blocking form. */
#define BOTH(...) BOTH_(__VA_ARGS__)
#define BOTH_(name, name_i, op, count, type, peer, parameters, arguments)                  \
    CALL(MPI_##name, BLOCKS, op, count, type, peer, parameters, arguments)                \
    CALL(MPI_##name_i, RETURNS, op, count, type, peer, (OPEN parameters, MPI_Request *q), \
         (OPEN arguments, q))

/* A persistent form, which is recorded each time that it starts. */
#define INIT(...) INIT_(__VA_ARGS__)
#define INIT_(name, op, count, type, peer, parameters, arguments)                          \
    int name(OPEN parameters, MPI_Request *q)                                             \
    {                                                                                     \
        REAL(P##name);                                                                    \
        return keep(real_P##name(OPEN arguments, q), op, count, type, peer, c, q);        \
    }                                                                                     \
    ALSO_PMPI(name, OPEN parameters, MPI_Request *q);

#if MPI_VERSION >= 4
#define ALL_INIT(name, ...) INIT(MPI_##name##_init, __VA_ARGS__)
#elif defined OMPI_HAVE_MPI_EXT_PCOLLREQ
#define ALL_INIT(name, ...) INIT(MPIX_##name##_init, __VA_ARGS__)
#else
#define ALL_INIT(name, ...)
#endif
/* A collective in all three forms. */
#define ALL(...) ALL_(__VA_ARGS__)
#define ALL_(name, name_i, op, count, type, peer, parameters, arguments)                   \
    BOTH(name, name_i, op, count, type, peer, parameters, arguments)                      \
    ALL_INIT(name, op, count, type, peer, (OPEN parameters, MPI_Info info), (OPEN arguments, info))

/* A sum of n elements; sends that differ in when they complete. */
#define SUMS (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c), \
             (s, r, n, t, op, c)
#define SENDS (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), \
              (b, n, t, to, tag, c)
#define RECEIVES (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c)
/* n elements of t from each to m of u on each, or on the root. */
#define EXCHANGES (const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, \
                   MPI_Comm c), (s, n, t, r, m, u, c)
#define ROOTED (const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, int root, \
                MPI_Comm c), (s, n, t, r, m, u, root, c)
#define EXCHANGES_V (const void *s, int n, MPI_Datatype t, void *r, const int m[], \
                     const int d[], MPI_Datatype u, MPI_Comm c), (s, n, t, r, m, d, u, c)
#define EXCHANGES_VV (const void *s, const int n[], const int d[], MPI_Datatype t, void *r, \
                      const int m[], const int e[], MPI_Datatype u, MPI_Comm c), \
                     (s, n, d, t, r, m, e, u, c)

ALL(Allreduce, Iallreduce, "all_reduce", n, t, -1, SUMS)
ALL(Scan, Iscan, "scan", n, t, -1, SUMS)
ALL(Exscan, Iexscan, "scan", n, t, -1, SUMS)
ALL(Reduce, Ireduce, "reduce", n, t, root,
    (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c),
    (s, r, n, t, op, root, c))
ALL(Bcast, Ibcast, "broadcast", n, t, root, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c),
    (b, n, t, root, c))
ALL(Reduce_scatter_block, Ireduce_scatter_block, "reduce_scatter", n, t, -1, SUMS)
ALL(Reduce_scatter, Ireduce_scatter, "reduce_scatter", mean_of(n, c), t, -1,
    (const void *s, void *r, const int n[], MPI_Datatype t, MPI_Op op, MPI_Comm c),
    (s, r, n, t, op, c))
ALL(Allgather, Iallgather, "all_gather", m, u, -1, EXCHANGES)
ALL(Allgatherv, Iallgatherv, "all_gather", mean_of(m, c), u, -1, EXCHANGES_V)
ALL(Alltoall, Ialltoall, "all_to_all", m, u, -1, EXCHANGES)
ALL(Alltoallv, Ialltoallv, "all_to_all", mean_of(m, c), u, -1, EXCHANGES_VV)
/* In place the root's own count is not looked at. */
ALL(Gather, Igather, "gather", s == MPI_IN_PLACE ? m : n, s == MPI_IN_PLACE ? u : t, root, ROOTED)
ALL(Scatter, Iscatter, "scatter", r == MPI_IN_PLACE ? n : m, r == MPI_IN_PLACE ? t : u, root,
    ROOTED)
ALL(Gatherv, Igatherv, "gather", s == MPI_IN_PLACE ? m[root] : n, s == MPI_IN_PLACE ? u : t, root,
    (const void *s, int n, MPI_Datatype t, void *r, const int m[], const int d[], MPI_Datatype u,
     int root, MPI_Comm c),
    (s, n, t, r, m, d, u, root, c))
ALL(Scatterv, Iscatterv, "scatter", r == MPI_IN_PLACE ? n[root] : m, r == MPI_IN_PLACE ? t : u,
    root,
    (const void *s, const int n[], const int d[], MPI_Datatype t, void *r, int m, MPI_Datatype u,
     int root, MPI_Comm c),
    (s, n, d, t, r, m, u, root, c))
ALL(Barrier, Ibarrier, "barrier", 0, MPI_BYTE, -1, (MPI_Comm c), (c))
/* What a member sends to one neighbour; the numbers of neighbours are not known here. */
ALL(Neighbor_allgather, Ineighbor_allgather, "neighbor_gather", n, t, -1, EXCHANGES)
ALL(Neighbor_allgatherv, Ineighbor_allgatherv, "neighbor_gather", n, t, -1, EXCHANGES_V)
ALL(Neighbor_alltoall, Ineighbor_alltoall, "neighbor_all_to_all", n, t, -1, EXCHANGES)

BOTH(Send, Isend, "send", n, t, to, SENDS)
BOTH(Ssend, Issend, "send", n, t, to, SENDS)
BOTH(Bsend, Ibsend, "send", n, t, to, SENDS)
BOTH(Rsend, Irsend, "send", n, t, to, SENDS)
CALL(MPI_Recv, BLOCKS, "recv", n, t, from,
     (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *status),
     (b, n, t, from, tag, c, status))
CALL(MPI_Irecv, RETURNS, "recv", n, t, from,
     (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *q),
     (b, n, t, from, tag, c, q))
INIT(MPI_Send_init, "send", n, t, to, SENDS)
INIT(MPI_Ssend_init, "send", n, t, to, SENDS)
INIT(MPI_Bsend_init, "send", n, t, to, SENDS)
INIT(MPI_Rsend_init, "send", n, t, to, SENDS)
INIT(MPI_Recv_init, "recv", n, t, from, RECEIVES, (b, n, t, from, tag, c))

/* Two messages. */
int MPI_Sendrecv(const void *s, int n, MPI_Datatype t, int to, int tag, void *r, int m,
                 MPI_Datatype u, int from, int with, MPI_Comm c, MPI_Status *status)
{
    REAL(PMPI_Sendrecv);
    int64_t at = begin();
    int result = real_PMPI_Sendrecv(s, n, t, to, tag, r, m, u, from, with, c, status);

    note("send", at, n, t, to, c, BLOCKS, result);
    return note("recv", at, m, u, from, c, BLOCKS, result);
}
ALSO_PMPI(MPI_Sendrecv, const void *s, int n, MPI_Datatype t, int to, int tag, void *r, int m,
          MPI_Datatype u, int from, int with, MPI_Comm c, MPI_Status *status);

int MPI_Sendrecv_replace(void *b, int n, MPI_Datatype t, int to, int tag, int from, int with,
                         MPI_Comm c, MPI_Status *status)
{
    REAL(PMPI_Sendrecv_replace);
    int64_t at = begin();
    int result = real_PMPI_Sendrecv_replace(b, n, t, to, tag, from, with, c, status);

    note("send", at, n, t, to, c, BLOCKS, result);
    return note("recv", at, n, t, from, c, BLOCKS, result);
}
ALSO_PMPI(MPI_Sendrecv_replace, void *b, int n, MPI_Datatype t, int to, int tag, int from, int with,
          MPI_Comm c, MPI_Status *status);

/* --- requests and communicators that begin and end ------------------------------------------- */

int MPI_Start(MPI_Request *q)
{
    REAL(PMPI_Start);
    int64_t at = begin();
    int result = real_PMPI_Start(q);

    if (result == MPI_SUCCESS)
        note_start(*q, at, record_now_ns());
    return result;
}
ALSO_PMPI(MPI_Start, MPI_Request *q);

/* The first line has the time of the call, the others 0: their sum is the time. */
int MPI_Startall(int n, MPI_Request q[])
{
    REAL(PMPI_Startall);
    int64_t at = begin();
    int result = real_PMPI_Startall(n, q);
    int64_t end = record_now_ns();

    for (int i = 0; i < n && result == MPI_SUCCESS; i++)
        if (note_start(q[i], at, end))
            end = at;
    return result;
}
ALSO_PMPI(MPI_Startall, int n, MPI_Request q[]);

int MPI_Request_free(MPI_Request *q)
{
    struct persistent unused;
    REAL(PMPI_Request_free);

    find_request(*q, true, &unused);
    return real_PMPI_Request_free(q);
}
ALSO_PMPI(MPI_Request_free, MPI_Request *q);

#define ENDS(name)                                \
    int name(MPI_Comm *comm)                      \
    {                                             \
        REAL(P##name);                            \
        record_comm_gone((const void *)*comm);    \
        return real_P##name(comm);                \
    }                                             \
    ALSO_PMPI(name, MPI_Comm *comm);

ENDS(MPI_Comm_free)
ENDS(MPI_Comm_disconnect)

/* --- not recorded ---------------------------------------------------------------------------- */

/* Moves data over a window or a matched message, or with a type for each peer. */
#define LOST(name, parameters, arguments)         \
    int MPI_##name parameters                     \
    {                                             \
        REAL(PMPI_##name);                        \
        static _Atomic bool said;                 \
        say_library();                            \
        if (!atomic_exchange(&said, true))        \
            record_lost("MPI_" #name);            \
        return real_PMPI_##name arguments;        \
    }                                             \
    ALSO_PMPI(MPI_##name, OPEN parameters);

#define TARGET int rank, MPI_Aint at, int m, MPI_Datatype u
LOST(Put, (const void *b, int n, MPI_Datatype t, TARGET, MPI_Win w), (b, n, t, rank, at, m, u, w))
LOST(Get, (void *b, int n, MPI_Datatype t, TARGET, MPI_Win w), (b, n, t, rank, at, m, u, w))
LOST(Accumulate, (const void *b, int n, MPI_Datatype t, TARGET, MPI_Op op, MPI_Win w),
     (b, n, t, rank, at, m, u, op, w))
LOST(Get_accumulate,
     (const void *b, int n, MPI_Datatype t, void *r, int k, MPI_Datatype v, TARGET, MPI_Op op,
      MPI_Win w),
     (b, n, t, r, k, v, rank, at, m, u, op, w))
LOST(Fetch_and_op,
     (const void *b, void *r, MPI_Datatype t, int rank, MPI_Aint at, MPI_Op op, MPI_Win w),
     (b, r, t, rank, at, op, w))
LOST(Compare_and_swap,
     (const void *b, const void *x, void *r, MPI_Datatype t, int rank, MPI_Aint at, MPI_Win w),
     (b, x, r, t, rank, at, w))
LOST(Rput, (const void *b, int n, MPI_Datatype t, TARGET, MPI_Win w, MPI_Request *q),
     (b, n, t, rank, at, m, u, w, q))
LOST(Rget, (void *b, int n, MPI_Datatype t, TARGET, MPI_Win w, MPI_Request *q),
     (b, n, t, rank, at, m, u, w, q))
LOST(Raccumulate,
     (const void *b, int n, MPI_Datatype t, TARGET, MPI_Op op, MPI_Win w, MPI_Request *q),
     (b, n, t, rank, at, m, u, op, w, q))
LOST(Rget_accumulate,
     (const void *b, int n, MPI_Datatype t, void *r, int k, MPI_Datatype v, TARGET, MPI_Op op,
      MPI_Win w, MPI_Request *q),
     (b, n, t, r, k, v, rank, at, m, u, op, w, q))
LOST(Mrecv, (void *b, int n, MPI_Datatype t, MPI_Message *m, MPI_Status *status),
     (b, n, t, m, status))
LOST(Imrecv, (void *b, int n, MPI_Datatype t, MPI_Message *m, MPI_Request *q), (b, n, t, m, q))
LOST(Neighbor_alltoallv,
     (const void *s, const int n[], const int d[], MPI_Datatype t, void *r, const int m[],
      const int e[], MPI_Datatype u, MPI_Comm c),
     (s, n, d, t, r, m, e, u, c))
LOST(Ineighbor_alltoallv,
     (const void *s, const int n[], const int d[], MPI_Datatype t, void *r, const int m[],
      const int e[], MPI_Datatype u, MPI_Comm c, MPI_Request *q),
     (s, n, d, t, r, m, e, u, c, q))
#define TYPED(place) const void *s, const int n[], const place d[], const MPI_Datatype t[], \
                     void *r, const int m[], const place e[], const MPI_Datatype u[], MPI_Comm c
LOST(Alltoallw, (TYPED(int)), (s, n, d, t, r, m, e, u, c))
LOST(Ialltoallw, (TYPED(int), MPI_Request *q), (s, n, d, t, r, m, e, u, c, q))
LOST(Neighbor_alltoallw, (TYPED(MPI_Aint)), (s, n, d, t, r, m, e, u, c))
LOST(Ineighbor_alltoallw, (TYPED(MPI_Aint), MPI_Request *q), (s, n, d, t, r, m, e, u, c, q))
