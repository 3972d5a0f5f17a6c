#include "tests/lib/commands/plot_scene.h"

#include <stdio.h>

#include "analysis/draw/plot_style.h"
#include "analysis/store/store_search.h"
#include "shared/files/files.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/unit.h"

void store_search(void)
{
    runs_sql("INSERT INTO search (status, hash, space, shard, n_shards, model, cluster, framework,"
             " global_batch, n_best, command, version, started_at) VALUES ('ok', '', '', 1, 1, 'm',"
             " 'c', 'f', 8, 1, 'tune', '1', 0)");
    for (int i = 0; i < 2; i++)
        runs_sql(i == 0 ? "INSERT INTO searched VALUES (1, 0, 'simulated', 1, 1, NULL, 0, 'tp=1',"
                          " '', '', 1, 1000, -1, -1, '', 0, 8, 64, 64, -1, 64, 1, 1, 1, NULL,"
                          " '', -1, 0, 0)"
                        : "INSERT INTO searched VALUES (1, 1, 'simulated', 0, 2, NULL, 1, 'tp=2',"
                          " '', '', 1, 1200, -1, -1, '', 0, 8, 32, 32, -1, 32, 1, 1, 1, NULL,"
                          " '', -1, 0, 0)");
}

struct scene open_scene(enum lw_plot_kind kind)
{
    struct scene s = {0};
    struct lw_err err = {0};
    int32_t n;

    if (lw_store_open(runs_db, LW_STORE_READ, &s.store, &err) != LW_OK ||
        lw_store_runs(s.store, &s.arena, &s.runs, &n, &err) != LW_OK ||
        lw_cluster_find("dgx-h100", &s.cluster, &err) != LW_OK)
        fail_msg("%s", err.msg);
    s.plot = (struct lw_plot){.kind = kind, .runs = s.runs, .n_runs = n, .step = -1,
                              .max_ranks = 8, .op = LW_OP_ALL_REDUCE};
    if (lw_plot_source_of(kind) == LW_PLOT_FROM_SEARCH)
        s.plot.n_runs = 0;
    lw_store_find_search(s.store, "last", &s.arena, &s.search, NULL);
    return s;
}

void close_scene(struct scene *s)
{
    lw_store_close(s->store);
    lw_cluster_free(&s->cluster);
    lw_arena_free(&s->arena);
}

char *script_at(enum lw_plot_kind kind, int width)
{
    struct scene s = open_scene(kind);
    struct lw_err err = {0};
    FILE *f = tmpfile();

    s.plot.cluster = &s.cluster;
    s.plot.search = &s.search;
    s.plot.width = width;
    assert_ok(lw_plot_script(s.store, &s.plot, f, &err), err);
    long n = ftell(f);
    char *text = test_calloc((size_t)n + 1, 1);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    fclose(f);
    close_scene(&s);
    return text;
}

char *script_of(enum lw_plot_kind kind)
{
    return script_at(kind, 0);
}
