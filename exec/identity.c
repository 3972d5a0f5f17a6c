/* Who this process is. Launchers say it by environment variables; all that are set must agree, because
 * a program of one MPI started by the launcher of another silently becomes n worlds of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/rendezvous.h"
#include "shared/units.h"

static const struct launcher {
    const char *name, *rank, *size, *local, *job;
} launchers[] = {
    {"lapwing", "LAPWING_RANK", "LAPWING_RANKS", "LAPWING_LOCAL_RANK", "LAPWING_TOKEN"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "PMIX_NAMESPACE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_ID"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_JOB_ID"},
};
enum { N_LAUNCHERS = sizeof launchers / sizeof launchers[0], DEFAULT_PORT = 29511 };

static enum lw_status number(const char *name, int64_t max, int32_t *value, struct lw_err *err)
{
    const char *text = getenv(name);
    int64_t n = 0;

    if (!text)
        return lw_fail(err, LW_EINVAL, "%s is not set", name);
    if (lw_parse_int(text, 0, max, &n, err) != LW_OK)
        return lw_err_context(err, "%s", name);
    *value = (int32_t)n;
    return LW_OK;
}

static enum lw_status read_one(const struct launcher *l, struct exec_identity *id,
                               struct lw_err *err)
{
    const char *job = getenv(l->job);

    if (number(l->size, INT32_MAX, &id->n_ranks, err) != LW_OK ||
        number(l->rank, INT32_MAX, &id->rank, err) != LW_OK ||
        (getenv(l->local) && number(l->local, INT32_MAX, &id->local_rank, err) != LW_OK))
        return lw_err_context(err, "started by %s", l->name);
    if (id->rank >= id->n_ranks)
        return lw_fail(err, LW_EINVAL, "started by %s: %s=%d of %s=%d", l->name, l->rank, id->rank,
                       l->size, id->n_ranks);
    if (!getenv(l->local))
        id->local_rank = id->rank;
    snprintf(id->token, sizeof id->token, "%.63s", job ? job : "");
    snprintf(id->source, sizeof id->source, "%s", l->name);
    return LW_OK;
}

static enum lw_status split_address(const char *text, struct exec_identity *id, struct lw_err *err)
{
    const char *colon = strrchr(text, ':');
    int64_t port = 0;

    if (!colon || colon == text || colon - text >= (ptrdiff_t)sizeof id->host)
        return lw_fail(err, LW_EINVAL, "LAPWING_RENDEZVOUS='%s' is not HOST:PORT", text);
    if (lw_parse_int(colon + 1, 1, 65535, &port, err) != LW_OK)
        return lw_err_context(err, "LAPWING_RENDEZVOUS='%s'", text);
    snprintf(id->host, sizeof id->host, "%.*s", (int)(colon - text), text);
    id->port = (int32_t)port;
    return LW_OK;
}

/* LAPWING_RENDEZVOUS, or torchrun's MASTER_ADDR and MASTER_PORT (the next port: torch's own store may
 * listen on that one), or a port of this machine. */
static enum lw_status read_address(struct exec_identity *id, struct lw_err *err)
{
    const char *own = getenv("LAPWING_RENDEZVOUS"), *master = getenv("MASTER_ADDR");

    if (own)
        return split_address(own, id, err);
    snprintf(id->host, sizeof id->host, "%.255s", master ? master : "127.0.0.1");
    id->port = DEFAULT_PORT;
    if (!getenv("MASTER_PORT"))
        return LW_OK;
    LW_TRY(number("MASTER_PORT", 65534, &id->port, err));
    id->port++;
    return LW_OK;
}

enum lw_status exec_identity_read(struct exec_identity *id, bool *found, struct lw_err *err)
{
    struct exec_identity first = {0};

    *found = false;
    for (int i = 0; i < N_LAUNCHERS; i++) {
        struct exec_identity other = {0};
        if (!getenv(launchers[i].rank))
            continue;
        /* sbatch and salloc set SLURM_PROCID=0 for the script itself: not a step of several */
        if (!getenv(launchers[i].size) && strcmp(launchers[i].name, "Slurm") == 0)
            continue;
        LW_TRY(read_one(&launchers[i], &other, err));
        if (*found && (first.rank != other.rank || first.n_ranks != other.n_ranks))
            return lw_fail(err, LW_EINVAL,
                           "%s says rank %d of %d, %s says rank %d of %d: start with one launcher",
                           first.source, first.rank, first.n_ranks, other.source, other.rank,
                           other.n_ranks);
        if (!*found)
            first = other;
        *found = true;
    }
    if (!*found)
        return LW_OK;
    LW_TRY(read_address(&first, err));
    *id = first;
    return LW_OK;
}
