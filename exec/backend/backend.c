/* The table of backends: which there are, which can run here, and for the rest why not. A
 * backend's table is checked before it is used, so that a plugin of another version is refused
 * with a message. A backend with a library of its own is a plugin (plugin.h), loaded when it is
 * requested. */
#include "exec/backend/backend.h"

#include <stdio.h>

#include "exec/backend/plugin.h"
#include "shared/base/nearest.h"

static const struct {
    const char *name, *about;
    const struct exec_backend *built_in;
    const char *plugin; /* NULL: built in */
} known[EXEC_N_BACKENDS] = {
    {"threads", "ranks are threads of one process; collectives over shared memory",
     &exec_backend_threads, NULL},
    {"mpi", "one process per rank, collectives of Open MPI", NULL, "lapwing-openmpi.so"},
    {"nccl", "one process per GPU, collectives of NCCL; or a loop of ranks on one GPU", NULL,
     "lapwing-nccl.so"},
};

static const char *const honesty_names[] = {"real", "spin", "sleep", "paced", "emulated"};
static const char *const compute_names[EXEC_N_COMPUTES] = {"gemm", "spin", "sleep"};

const char *exec_honesty_name(enum exec_honesty h)
{
    return honesty_names[h];
}

const char *exec_compute_name(enum exec_compute c)
{
    return compute_names[c];
}

enum lw_status exec_compute_parse(const char *name, enum exec_compute *c, struct lw_err *err)
{
    for (int i = 0; i < EXEC_N_COMPUTES; i++) {
        if (strcmp(name, compute_names[i]) == 0) {
            *c = (enum exec_compute)i;
            return LW_OK;
        }
    }
    return lw_fail(err, LW_EINVAL, "--compute: unknown value '%s'; expected gemm, spin or sleep",
                                   name);
}

bool exec_backend_can(const struct exec_backend *b, enum lw_op_kind kind)
{
    static const uint32_t bits[LW_N_OP_KINDS] = {
        [LW_OP_ALL_REDUCE] = EXEC_CAN_ALL_REDUCE,
        [LW_OP_REDUCE] = EXEC_CAN_REDUCE,
        [LW_OP_REDUCE_SCATTER] = EXEC_CAN_REDUCE_SCATTER,
        [LW_OP_ALL_GATHER] = EXEC_CAN_ALL_GATHER,
        [LW_OP_BROADCAST] = EXEC_CAN_BROADCAST,
        [LW_OP_ALL_TO_ALL] = EXEC_CAN_ALL_TO_ALL,
        [LW_OP_BARRIER] = EXEC_CAN_BARRIER,
        [LW_OP_SEND] = EXEC_CAN_SEND_RECV,
        [LW_OP_RECV] = EXEC_CAN_SEND_RECV,
    };

    return (b->capabilities & bits[kind]) != 0;
}

static bool bit_agrees(const struct exec_backend *b, uint32_t bit, bool there)
{
    return ((b->capabilities & bit) != 0) == there;
}

enum lw_status exec_backend_check(const struct exec_backend *b, struct lw_err *err)
{
    if (b->api_version != EXEC_API_VERSION)
        return lw_fail(err, LW_ENOTSUP,
                       "a backend of api version %u; this program takes version %d", b->api_version,
                       EXEC_API_VERSION);
    if (b->size != sizeof *b)
        return lw_fail(err, LW_ENOTSUP, "backend '%s' has a table of %zu bytes; here it has %zu",
                       b->name, b->size, sizeof *b);
    if (!b->probe || !b->open || !b->close || !b->abort || !b->facts || !b->now_ns ||
        !b->mem_alloc || !b->mem_free || !b->mem_read || !b->mem_write || !b->stream_create ||
        !b->event_create || !b->event_record || !b->event_wait || !b->compute || !b->hold ||
        !b->release || !b->comm_create || !b->comm_destroy || !b->communicate || !b->poll)
        return lw_fail(err, LW_ENOTSUP, "backend '%s' lacks a function that every backend needs",
                       b->name);
    if (!bit_agrees(b, EXEC_CAN_GRAPH, b->step_graph) ||
        !bit_agrees(b, EXEC_CAN_ALGORITHM, b->comm_reducer))
        return lw_fail(err, LW_ENOTSUP, "backend '%s': capability bits %#x and functions disagree",
                       b->name, b->capabilities);
    return LW_OK;
}

static void list_one(int i, struct exec_listing *l)
{
    const struct exec_backend *b = known[i].built_in;

    *l = (struct exec_listing){.name = known[i].name, .about = known[i].about};
    if (known[i].plugin)
        b = exec_plugin_load(known[i].plugin, l->reason);
    if (b && b->probe(l->reason))
        l->backend = b;
}

void exec_backend_list(struct exec_listing list[EXEC_N_BACKENDS])
{
    for (int i = 0; i < EXEC_N_BACKENDS; i++)
        list_one(i, &list[i]);
}

/* -1: none. */
static int place_of(const char *name)
{
    for (int i = 0; i < EXEC_N_BACKENDS; i++)
        if (strcmp(name, known[i].name) == 0)
            return i;
    return -1;
}

enum lw_status exec_backend_known(const char *name, struct lw_err *err)
{
    const char *names[EXEC_N_BACKENDS + 1] = {0};

    if (place_of(name) >= 0)
        return LW_OK;
    for (int i = 0; i < EXEC_N_BACKENDS; i++)
        names[i] = known[i].name;
    return lw_fail_word(err, "backend", name, names);
}

enum lw_status exec_backend_find(const char *name, const struct exec_backend **b,
                                 struct lw_err *err)
{
    struct exec_listing l;

    LW_TRY(exec_backend_known(name, err));
    list_one(place_of(name), &l);
    if (!l.backend)
        return lw_fail(err, LW_ENOTSUP, "backend '%s' cannot run: %s", name, l.reason);
    *b = l.backend;
    return LW_OK;
}
