/* Measured tables on a cluster that has links, with the doubts about that: another network, an NCCL
 * without constants, times that the model of these links does not explain. */
#include "analysis/netbench/lay_tables.h"

#include <string.h>

#include "shared/cluster/measured.h"
#include "shared/files/files.h"
#include "sim/cost/cost_scaled.h"
#include "sim/nccl/nccl_constants.h"
#include "traces/nccl_tests/import_nccl_tests.h"

/* What makes it doubtful that tables were measured on such a machine. */
static void say_doubts(const struct lw_cluster *c, int32_t n_tables, FILE *notes,
                       const char *who)
{
    char buf[32];

    for (int32_t i = 0; i < n_tables; i++) {
        const struct lw_cost_table *t = &c->tables[i];
        struct lw_cost_query q = {.op = t->op, .dtype = t->dtype, .n_ranks = t->n_ranks,
                                  .n_nodes = t->n_nodes, .alone = true};
        int64_t bytes = 0;
        double ratio;
        if (sim_table_is_doubtful(c, &q, &ratio, &bytes))
            fprintf(notes,
                    "%s: note: %s on %d rank%s of %d node%s takes %.2g times NCCL's "
                    "model on '%s' at %s: was it measured on this fabric?\n",
                    who, lw_op_name(t->op), t->n_ranks, lw_plural(t->n_ranks), t->n_nodes,
                    lw_plural(t->n_nodes), ratio, c->name, lw_format_bytes(buf, bytes));
    }
}

/* A version without constants would make the model refuse: the cluster keeps its own. */
static void keep_version(const struct lw_cluster *base, struct lw_cluster *tables, FILE *notes,
                         const char *who)
{
    const struct sim_nccl_version *known;

    if (strcmp(base->library, "nccl") != 0 || !*tables->library_version ||
        sim_nccl_version_of(tables->library_version, &known, NULL) == LW_OK)
        return;
    fprintf(notes,
            "%s: note: the log's NCCL is %s, whose constants are not known: '%s' keeps %s\n", who,
            tables->library_version, base->name,
            *base->library_version ? base->library_version : "the newest");
    tables->library_version = "";
}

enum lw_status lw_tables_lay_onto(const char *name, struct traces_converted *c, FILE *notes,
                                  const char *who, struct lw_err *err)
{
    struct lw_cluster base = {0};

    LW_TRY(lw_cluster_find(name, &base, err));
    int32_t n_tables = c->cluster.n_tables;
    const struct lw_link *inter = lw_cluster_link(&base, LW_LINK_INTER);
    if (c->network && c->cluster.n_nodes > 1 && !traces_same_network(&base, c->network))
        fprintf(notes, "%s: note: the log's network is '%s', that of '%s' is '%s'\n", who,
                c->network, base.name, inter ? inter->name : "none");
    keep_version(&base, &c->cluster, notes, who);
    enum lw_status status = lw_cluster_lay_onto(&base, &c->cluster, err);
    if (status != LW_OK) {
        lw_cluster_free(&base);
        return status;
    }
    lw_cluster_free(&c->cluster);
    c->cluster = base;
    c->network = NULL;
    say_doubts(&base, n_tables, notes, who);
    return LW_OK;
}
