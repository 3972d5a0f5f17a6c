/* Memory of the members of one machine: the first makes a file without a name (memfd) and tells the
 * others where to find it below its /proc. Whether all have it is a minimum over them. */
#include "exec/mpi/mpi_shared.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec/cpu/boot_id.h"
#include "exec/mpi/mpi_worker.h"

struct place { /* what the first member tells */
    int64_t pid, fd;
    char machine[EXEC_BOOT_ID];
};

static int open_here(struct place *p, int64_t bytes, bool first)
{
    char path[64], machine[EXEC_BOOT_ID];

    exec_boot_id(machine);
    if (first) {
        int fd = memfd_create("lapwing", MFD_CLOEXEC);
        *p = (struct place){.pid = getpid(), .fd = ftruncate(fd, bytes) == 0 ? fd : -1};
        memcpy(p->machine, machine, sizeof machine);
        return fd;
    }
    if (p->fd < 0 || strncmp(p->machine, machine, sizeof machine) != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)p->pid, (long long)p->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static void map_it(struct mpi_shared *n, int fd, int64_t bytes)
{
    int how = MAP_SHARED | MAP_NORESERVE;
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, how, fd, 0);

    if (at != MAP_FAILED)
        *n = (struct mpi_shared){at, bytes};
}

enum lw_status mpi_shared_open(struct mpi_shared *n, MPI_Comm comm, int64_t bytes,
                               struct lw_err *err)
{
    struct place p = {.fd = -1};
    int rank, mine, all = 0;

    *n = (struct mpi_shared){0};
    MPI_Comm_rank(comm, &rank);
    int fd = rank == 0 ? open_here(&p, bytes, true) : -1;
    int code = MPI_Bcast(&p, sizeof p, MPI_BYTE, 0, comm);
    if (rank > 0 && code == MPI_SUCCESS)
        fd = open_here(&p, bytes, false);
    if (!getenv("LAPWING_MPI_APART")) /* a member has it: as if they were on several machines */
        map_it(n, fd, bytes);
    mine = n->mem != NULL;
    if (code == MPI_SUCCESS) /* the file is closed when all have opened it */
        code = MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
    if (fd >= 0)
        close(fd);
    if (!all)
        mpi_shared_close(n);
    return mpi_ok(code, "MPI_Allreduce", err);
}

void mpi_shared_close(struct mpi_shared *n)
{
    if (n->mem)
        munmap(n->mem, (size_t)n->bytes);
    *n = (struct mpi_shared){0};
}
