#pragma once

#include "analysis/draw/plot.h"
#include "analysis/store/store.h"
#include "analysis/store/store_search.h"
#include "shared/base/arena.h"
#include "shared/cluster/cluster.h"

/* What tests of pictures share: the runs of run_fixture.h (runs_open), opened, and scripts of
 * them. */

/* An open database with all its runs, and a plot of them. */
struct scene {
    struct lw_store *store;
    struct lw_arena arena;
    struct lw_run *runs;
    struct lw_cluster cluster;
    struct lw_search search;
    struct lw_plot plot;
};

/* A search of two strategies. */
void store_search(void);

/* Its plot has no cluster and search yet; close_scene frees all. Fails the test on an error. */
struct scene open_scene(enum lw_plot_kind kind);
void close_scene(struct scene *s);

/* The script as text; freed by the caller. */
char *script_at(enum lw_plot_kind kind, int width);
char *script_of(enum lw_plot_kind kind);
