/* Memory of several processes at one address. Rank 0 makes a file without a name (memfd) and
 * tells the others where to find it below its /proc; each maps it at the same fixed address, far
 * from where systems put anything. One part is common, then every rank has a part: address
 * space, not memory, which comes with use. Parts are handed out from their start and given back
 * all at once. */
#include "exec/cpu/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec/cpu/boot_id.h"
#include "shared/base/arena.h"

#define ADDRESS ((uintptr_t)0x200000000000)
#define COMMON_BYTES (INT64_C(1) << 30)
#define RANK_BYTES (INT64_C(1) << 37)
enum { ALIGN = 64 };

struct exec_region {
    int32_t n_ranks, fd;
    char *base;          /* NULL: not mapped */
    int64_t bytes;
    int64_t *taken;      /* [n_ranks + 1] of each part; the common one first */
};

struct where { /* what rank 0 tells */
    int32_t pid, fd, ok;
    char machine[EXEC_BOOT_ID];
};

static bool map_it(struct exec_region *r)
{
    void *at = mmap((void *)ADDRESS, (size_t)r->bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, r->fd, 0);

    if (at == MAP_FAILED)
        return false;
    r->base = at;
    return true;
}

static enum lw_status make(struct exec_region *r, struct where *w, struct lw_err *err)
{
    r->fd = memfd_create("lapwing", MFD_CLOEXEC);
    if (r->fd < 0 || ftruncate(r->fd, r->bytes) != 0 || !map_it(r))
        return lw_fail(err, LW_ENOTSUP, "memory shared by the ranks' processes: %s",
                       strerror(errno));
    *w = (struct where){.pid = (int32_t)getpid(), .fd = r->fd, .ok = 1};
    exec_boot_id(w->machine);
    return LW_OK;
}

static enum lw_status find(struct exec_region *r, const struct where *w, struct lw_err *err)
{
    char path[64], here[EXEC_BOOT_ID];

    exec_boot_id(here);
    if (!w->ok)
        return lw_fail(err, LW_ENOTSUP, "rank 0 could not create the memory that all processes "
                                        "share");
    if (strncmp(here, w->machine, sizeof here) != 0)
        return lw_fail(err, LW_ENOTSUP, "backend threads needs all processes on one machine: this "
                                        "one is on another than rank 0");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", w->pid, w->fd);
    r->fd = open(path, O_RDWR | O_CLOEXEC);
    if (r->fd < 0 || !map_it(r))
        return lw_fail(err, LW_ENOTSUP, "memory shared with rank 0 (%s): %s", path,
                       strerror(errno));
    return LW_OK;
}

static enum lw_status join_all(struct exec_region *r, const struct exec_process *p,
                               struct lw_err *err)
{
    struct where w = {0};
    enum lw_status s = p->rank == 0 ? make(r, &w, err) : LW_OK;

    LW_TRY(p->broadcast(p->context, &w, sizeof w, s == LW_OK ? err : NULL));
    LW_TRY(s);
    if (p->rank != 0)
        LW_TRY(find(r, &w, err));
    return p->barrier(p->context, err); /* rank 0 may not be gone before all have found it */
}

enum lw_status exec_region_open(const struct exec_process *p, int32_t n_ranks,
                                struct exec_region **out, struct lw_err *err)
{
    struct exec_region *r;

    LW_NEW(r, 1, err);
    r->n_ranks = n_ranks;
    r->fd = -1;
    r->bytes = COMMON_BYTES + n_ranks * RANK_BYTES;
    r->taken = lw_calloc((size_t)n_ranks + 1, sizeof *r->taken);
    enum lw_status s = r->taken ? join_all(r, p, err) : lw_fail_nomem(err);
    if (s != LW_OK)
        exec_region_close(r);
    else
        *out = r;
    return s;
}

void exec_region_close(struct exec_region *r)
{
    if (!r)
        return;
    if (r->base)
        munmap(r->base, (size_t)r->bytes);
    if (r->fd >= 0)
        close(r->fd);
    lw_free(r->taken);
    lw_free(r);
}

void *exec_region_take(struct exec_region *r, int32_t owner, int64_t bytes)
{
    int64_t first = owner < 0 ? 0 : COMMON_BYTES + owner * RANK_BYTES;
    int64_t room = owner < 0 ? COMMON_BYTES : RANK_BYTES, *taken = &r->taken[owner + 1];
    int64_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;

    if (bytes < 0 || need > room - *taken)
        return NULL;
    void *at = r->base + first + *taken;
    *taken += need;
    return at;
}
