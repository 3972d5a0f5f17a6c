/* lapwing-record-mpi.so: preloaded before a program (LD_PRELOAD), records its calls of MPI through
 * the profiling interface (MPI standard 4.0, section 15.2: each MPI_X may be redefined, PMPI_X is
 * the library's own).
 *
 * A blocking call ran on the host from its entry to its return, and that is its span. A
 * non-blocking one has its duration on the host and no span. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "exec/record/record_file.h"

static void say_library(void)
{
    static bool said;
    int version = 0, subversion = 0;

    if (said)
        return;
    said = true;
    PMPI_Get_version(&version, &subversion);
    record_library("mpi", version, subversion, 0);
}

/* MPI has no id that is equal on all members: the ranks of the world in the communicator's order
 * make one, with the number of communicators of the same members before it. */
static uint64_t id_of(MPI_Comm comm, int n)
{
    enum { MOST = 1024 };
    int members[MOST], world[MOST];
    MPI_Group group, all;
    int known = n < MOST ? n : MOST;

    for (int i = 0; i < known; i++)
        members[i] = i;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &all);
    PMPI_Group_translate_ranks(group, known, members, all, world);
    PMPI_Group_free(&group);
    PMPI_Group_free(&all);
    return record_hash(world, (int64_t)known * (int64_t)sizeof *world);
}

static int32_t comm_of(MPI_Comm comm)
{
    int32_t number = record_comm_of((const void *)comm);
    int rank = -1, n = -1;

    if (number > 0)
        return number;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &n);
    return record_comm((const void *)comm, id_of(comm, n), rank, n);
}

static const char *dtype_name(MPI_Datatype t)
{
    if (t == MPI_FLOAT)
        return "f32";
    if (t == MPI_DOUBLE)
        return "f64";
    if (t == MPI_BYTE || t == MPI_CHAR || t == MPI_UNSIGNED_CHAR || t == MPI_INT8_T ||
        t == MPI_UINT8_T)
        return "u8";
    if (t == MPI_INT || t == MPI_UNSIGNED || t == MPI_INT32_T || t == MPI_UINT32_T)
        return "i32";
    if (t == MPI_LONG || t == MPI_UNSIGNED_LONG || t == MPI_INT64_T || t == MPI_UINT64_T ||
        t == MPI_LONG_LONG)
        return "i64";
    return "?";
}

static int64_t begin(void)
{
    say_library();
    return record_now_ns();
}

static int note(const char *op, int64_t entered, int64_t count, MPI_Datatype t, int peer,
                MPI_Comm comm, bool blocks, int result)
{
    int64_t end = record_now_ns();
    struct record_call c = {.op = op, .dtype = dtype_name(t), .count = count, .peer = peer,
                            .entered_ns = entered, .host_ns = end - entered};

    c.comm = comm_of(comm);
    int64_t number = record_call(&c);
    if (blocks)
        record_span(number, entered, end);
    return result;
}

static int64_t sum_of(const int counts[], MPI_Comm comm)
{
    int n = 0;
    int64_t sum = 0;

    PMPI_Comm_size(comm, &n);
    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

int MPI_Comm_free(MPI_Comm *comm)
{
    record_comm_gone((const void *)*comm);
    return PMPI_Comm_free(comm);
}

int MPI_Allreduce(const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
{
    int64_t at = begin();
    return note("all_reduce", at, n, t, -1, c, true, PMPI_Allreduce(s, r, n, t, op, c));
}

int MPI_Iallreduce(const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c,
                   MPI_Request *request)
{
    int64_t at = begin();
    return note("all_reduce", at, n, t, -1, c, false, PMPI_Iallreduce(s, r, n, t, op, c, request));
}

int MPI_Reduce(const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c)
{
    int64_t at = begin();
    return note("reduce", at, n, t, root, c, true, PMPI_Reduce(s, r, n, t, op, root, c));
}

int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm c)
{
    int64_t at = begin();
    return note("broadcast", at, n, t, root, c, true, PMPI_Bcast(b, n, t, root, c));
}

int MPI_Reduce_scatter_block(const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
{
    int64_t at = begin();
    return note("reduce_scatter", at, n, t, -1, c, true,
                PMPI_Reduce_scatter_block(s, r, n, t, op, c));
}

/* Members may receive different numbers of elements: the mean counts. */
int MPI_Reduce_scatter(const void *s, void *r, const int counts[], MPI_Datatype t, MPI_Op op,
                       MPI_Comm c)
{
    int64_t at = begin();
    int n = 1;
    int result = PMPI_Reduce_scatter(s, r, counts, t, op, c);

    PMPI_Comm_size(c, &n);
    return note("reduce_scatter", at, sum_of(counts, c) / n, t, -1, c, true, result);
}

int MPI_Allgather(const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c)
{
    int64_t at = begin();
    return note("all_gather", at, m, u, -1, c, true, PMPI_Allgather(s, n, t, r, m, u, c));
}

int MPI_Allgatherv(const void *s, int n, MPI_Datatype t, void *r, const int counts[],
                   const int places[], MPI_Datatype u, MPI_Comm c)
{
    int64_t at = begin();
    int ranks = 1;
    int result = PMPI_Allgatherv(s, n, t, r, counts, places, u, c);

    PMPI_Comm_size(c, &ranks);
    return note("all_gather", at, sum_of(counts, c) / ranks, u, -1, c, true, result);
}

int MPI_Alltoall(const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c)
{
    int64_t at = begin();
    return note("all_to_all", at, m, u, -1, c, true, PMPI_Alltoall(s, n, t, r, m, u, c));
}

int MPI_Barrier(MPI_Comm c)
{
    int64_t at = begin();
    return note("barrier", at, 0, MPI_BYTE, -1, c, true, PMPI_Barrier(c));
}

int MPI_Send(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c)
{
    int64_t at = begin();
    return note("send", at, n, t, to, c, true, PMPI_Send(b, n, t, to, tag, c));
}

int MPI_Recv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *status)
{
    int64_t at = begin();
    return note("recv", at, n, t, from, c, true, PMPI_Recv(b, n, t, from, tag, c, status));
}

int MPI_Isend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c,
              MPI_Request *request)
{
    int64_t at = begin();
    return note("send", at, n, t, to, c, false, PMPI_Isend(b, n, t, to, tag, c, request));
}

int MPI_Irecv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *request)
{
    int64_t at = begin();
    return note("recv", at, n, t, from, c, false, PMPI_Irecv(b, n, t, from, tag, c, request));
}

/* Two messages: their group number is the time of the call. */
int MPI_Sendrecv(const void *s, int n, MPI_Datatype t, int to, int tag, void *r, int m,
                 MPI_Datatype u, int from, int with, MPI_Comm c, MPI_Status *status)
{
    int64_t at = begin();
    int result = PMPI_Sendrecv(s, n, t, to, tag, r, m, u, from, with, c, status);

    note("send", at, n, t, to, c, true, result);
    return note("recv", at, m, u, from, c, true, result);
}
