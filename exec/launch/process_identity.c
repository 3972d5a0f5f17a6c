/* Who this process is. Launchers say it by environment variables; all that are set must agree,
 * because a program of one MPI started by the launcher of another silently becomes n worlds of
 * one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/launch/rendezvous.h"
#include "exec/backend/scalar.h"
#include "shared/base/hash.h"
#include "shared/numbers/units.h"

static const struct launcher {
    const char *name, *rank, *size, *local, *job, *here;
} launchers[] = {
    {"lapwing", "LAPWING_RANK", "LAPWING_RANKS", "LAPWING_LOCAL_RANK", "LAPWING_TOKEN",
     "LAPWING_RANKS"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "PMIX_NAMESPACE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_ID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_JOB_ID",
     "SLURM_STEP_TASKS_PER_NODE"},
};
enum { N_LAUNCHERS = sizeof launchers / sizeof launchers[0], DEFAULT_PORT = 29511 };
enum { FIRST_PORT = 20000, N_PORTS = 12000 }; /* below those that systems hand out by themselves */
enum { SLURM = N_LAUNCHERS - 1 };

static enum lw_status number(const char *name, int64_t max, int32_t *value, struct lw_err *err)
{
    const char *text = getenv(name);
    int64_t n = 0;

    if (!text)
        return lw_fail(err, LW_EINVAL, "%s is not set", name);
    LW_TRY(lw_err_context(err, lw_parse_int(text, 0, max, &n, err), "%s", name));
    *value = (int32_t)n;
    return LW_OK;
}

/* A step of srun; sbatch's own script has SLURM_PROCID=0 and the size of the job, but is no
 * step. */
static const char *size_variable(int i)
{
    const char *where = getenv("ENVIRONMENT");

    if (i != SLURM || getenv(launchers[i].size))
        return launchers[i].size;
    return where && strcmp(where, "BATCH") == 0 ? NULL : "SLURM_NTASKS";
}

/* Ranks on this machine where all have as many: "8" (one node, or torchrun), or Slurm's "8(x2)".
 * Else 1. */
static int32_t ranks_here(const char *name, int32_t n_ranks)
{
    const char *text = getenv(name);
    char *end = NULL;
    int64_t n = text ? strtoll(text, &end, 10) : 0;
    bool alike = n > 0 && (*end == '\0' || (*end == '(' && !strchr(end, ',')));

    return alike && n <= n_ranks ? (int32_t)n : 1;
}

/* The launcher's name of the job and, under Slurm, of the step. A text without room is hashed as
 * a whole: two jobs may differ in its last characters only. */
static enum lw_status read_token(int i, struct exec_identity *id, struct lw_err *err)
{
    const char *job = getenv(launchers[i].job), *step = i == SLURM ? getenv("SLURM_STEP_ID") : NULL;
    char hex[33];

    if (snprintf(id->token, sizeof id->token, "%s%s%s", job ? job : "", step ? "." : "",
                 step ? step : "") < (int)sizeof id->token)
        return LW_OK;
    struct lw_hash *h = lw_hash_new();
    if (!h)
        return lw_fail_nomem(err);
    lw_hash_string(h, job ? job : "");
    lw_hash_string(h, step ? step : "");
    lw_hash_finish(h, hex);
    snprintf(id->token, sizeof id->token, "%s", hex);
    return LW_OK;
}

static enum lw_status read_one(int i, struct exec_identity *id, struct lw_err *err)
{
    struct launcher own = launchers[i], *l = &own;

    l->size = size_variable(i);
    enum lw_status s = number(l->size, INT32_MAX, &id->n_ranks, err);
    if (s == LW_OK)
        s = number(l->rank, INT32_MAX, &id->rank, err);
    if (s == LW_OK && getenv(l->local))
        s = number(l->local, INT32_MAX, &id->local_rank, err);
    LW_TRY(lw_err_context(err, s, "started by %s", l->name));
    if (id->rank >= id->n_ranks)
        return lw_fail(err, LW_EINVAL, "started by %s: %s=%d of %s=%d", l->name, l->rank, id->rank,
                       l->size, id->n_ranks);
    if (!getenv(l->local))
        id->local_rank = -1;
    id->n_here = ranks_here(l->here, id->n_ranks);
    snprintf(id->source, sizeof id->source, "%s (%s, %s)", l->name, l->rank, l->size);
    return read_token(i, id, err);
}

enum lw_status exec_identity_address(struct exec_identity *id, const char *text, struct lw_err *err)
{
    const char *colon = strrchr(text, ':'), *host = text, *end = colon;
    int64_t port = 0;

    if (colon && *text == '[' && colon > text && colon[-1] == ']') { /* [IPv6]:PORT */
        host = text + 1;
        end = colon - 1;
    } else if (colon && memchr(text, ':', (size_t)(colon - text))) {
        return lw_fail(err, LW_EINVAL, "rendezvous '%s': an IPv6 address is written [ADDRESS]:PORT",
                       text);
    }
    if (!colon || end <= host || end - host >= (ptrdiff_t)sizeof id->host)
        return lw_fail(err, LW_EINVAL, "rendezvous '%s' is not HOST:PORT", text);
    LW_TRY(lw_err_context(err, lw_parse_int(colon + 1, 1, 65535, &port, err), "rendezvous '%s'",
                          text));
    snprintf(id->host, sizeof id->host, "%.*s", (int)(end - host), host);
    id->port = (int32_t)port;
    id->n_ports = 0;
    return LW_OK;
}

bool exec_identity_has_token(const struct exec_identity *id)
{
    return id->token[0] && strcmp(id->token, "none") != 0; /* torchrun's default */
}

/* Jobs on one machine get ports of their own where the launcher numbers its jobs: a sequence, for
 * the case that the first is taken. Every rank computes the same one, wherever it runs. A job
 * without a number has one port: at any other, it could meet a job like itself. */
static void derive_ports(struct exec_identity *id)
{
    uint64_t h = 0;

    id->port = DEFAULT_PORT;
    if (!exec_identity_has_token(id))
        return;
    for (const char *c = id->token; *c; c++)
        h = exec_mix(h ^ (uint64_t)(unsigned char)*c);
    for (int32_t i = 0; i < EXEC_PORTS; i++, h = exec_mix(h))
        id->ports[i] = FIRST_PORT + (int32_t)(h % N_PORTS);
    id->n_ports = EXEC_PORTS;
    id->port = id->ports[0];
}

static bool several_nodes(void)
{
    static const char *const here[][2] = {{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},
                                          {"MPI_LOCALNRANKS", "PMI_SIZE"}};
    const char *nodes = getenv("SLURM_STEP_NUM_NODES");
    bool several = nodes && strcmp(nodes, "1") != 0;

    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        const char *local = getenv(here[i][0]), *all = getenv(here[i][1]);
        several |= local && all && strcmp(local, all) != 0;
    }
    return several;
}

/* The first name of "rack[0-1]n[03-07,9]-ib,b": rack0n03-ib. */
static bool first_node(char *host, size_t room)
{
    const char *c = getenv("SLURM_STEP_NODELIST");
    bool inside = false, first = true; /* of brackets; the first number there */
    size_t n = 0;

    for (; c && *c && n + 1 < room && (inside || *c != ','); c++) {
        if (*c == '[' || *c == ']') {
            inside = *c == '[';
            first = true;
        } else if (inside && (*c == '-' || *c == ',')) {
            first = false;
        } else if (first) {
            host[n++] = *c;
        }
    }
    host[n] = '\0';
    return n > 0;
}

/* LAPWING_RENDEZVOUS, or torchrun's MASTER_ADDR and MASTER_PORT (the next port: torch's own
 * store may listen on that one), or the first of Slurm's nodes, or this machine. */
static enum lw_status read_address(struct exec_identity *id, struct lw_err *err)
{
    const char *own = getenv("LAPWING_RENDEZVOUS"), *master = getenv("MASTER_ADDR");

    if (own)
        return exec_identity_address(id, own, err);
    derive_ports(id);
    if (master)
        snprintf(id->host, sizeof id->host, "%.255s", master);
    else if (!several_nodes())
        snprintf(id->host, sizeof id->host, "127.0.0.1");
    else if (!first_node(id->host, sizeof id->host))
        return lw_fail(err, LW_EINVAL, "%s started processes on several machines: say where rank 0 "
                                       "listens (--rendezvous HOST:PORT or LAPWING_RENDEZVOUS)",
                       id->source);
    if (!getenv("MASTER_PORT"))
        return LW_OK;
    LW_TRY(number("MASTER_PORT", 65534, &id->port, err));
    id->port++;
    id->n_ports = 0;
    return LW_OK;
}

static bool is_set(int i)
{
    return getenv(launchers[i].rank) && size_variable(i);
}

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* srun may start one launcher per node, which then starts the ranks. */
static bool starts_launchers(int i)
{
    return i == SLURM && same(getenv("SLURM_STEP_NUM_TASKS"), getenv("SLURM_STEP_NUM_NODES"));
}

/* Of two launchers that agree, one may know more: the place on the machine, or the job. */
static void add_missing(struct exec_identity *id, const struct exec_identity *other)
{
    if (id->local_rank < 0)
        id->local_rank = other->local_rank;
    if (id->n_here <= 1)
        id->n_here = other->n_here;
    if (!id->token[0])
        memcpy(id->token, other->token, sizeof id->token);
}

enum lw_status exec_identity_read(struct exec_identity *id, bool *found, struct lw_err *err)
{
    struct exec_identity first = {0};

    *found = false;
    for (int i = 0; i < N_LAUNCHERS; i++) {
        struct exec_identity other = {0};
        if (!is_set(i) || (*found && starts_launchers(i)))
            continue;
        LW_TRY(read_one(i, &other, err));
        if (*found && (first.rank != other.rank || first.n_ranks != other.n_ranks))
            return lw_fail(err, LW_EINVAL,
                           "%s says rank %d of %d, %s says rank %d of %d: start with one launcher",
                           first.source, first.rank, first.n_ranks, other.source, other.rank,
                           other.n_ranks);
        add_missing(&first, &other);
        if (!*found)
            first = other;
        *found = true;
    }
    if (!*found)
        return LW_OK;
    if (first.local_rank < 0) /* no launcher says it: one machine */
        first.local_rank = first.rank;
    LW_TRY(read_address(&first, err));
    *id = first;
    return LW_OK;
}
