/* Plans with known answers. W-AR and W-DDP are defined so that every simulator can run them: a
 * directed ring, no splitting, chunk = bytes / ranks, no cost at the ends. */
#include "sim/bench/bench_plan.h"

#include <stdio.h>

#include "shared/plan/plan_builder.h"

enum { COMPUTE, COMM, DOWN, UP, N_MICRO = 32, MESSAGE_BYTES = 1 << 20 };

static struct lw_builder *begin(const char *name, int32_t n_ranks, int32_t n_roles)
{
    struct lw_builder *b = lw_builder_new(name, n_ranks);
    struct lw_role role = {.name = n_roles > 1 ? "stage" : "all"};

    if (!b)
        return NULL;
    for (int32_t i = 0; i < n_roles; i++)
        lw_builder_role(b, &role);
    for (int32_t r = 0; r < n_ranks; r++)
        lw_builder_rank(b, r, n_roles > 1 ? r : 0, n_roles > 1 ? 0 : r, n_roles > 1 ? r : 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    return b;
}

static void all_ranks(struct lw_builder *b, int32_t comm, int32_t n, struct lw_arena *a)
{
    int32_t *members = lw_arena_alloc(a, n, sizeof *members);

    for (int32_t i = 0; members && i < n; i++)
        members[i] = i;
    if (members)
        lw_builder_group(b, comm, members, n);
}

static int32_t work(struct lw_builder *b, enum lw_op_kind kind, lw_ps ps, int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, COMPUTE);

    op.work_ps = ps;
    return lw_builder_op(b, &op, &dep, dep >= 0);
}

static void reduce(struct lw_builder *b, int32_t dep)
{
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, COMM);

    op.comm = 0;
    op.bytes = SIM_BENCH_BYTES;
    lw_builder_op(b, &op, &dep, dep >= 0);
}

static struct lw_builder *data_parallel(enum sim_bench which, int32_t n, struct lw_arena *a)
{
    struct lw_builder *b = begin(which == SIM_BENCH_W_AR ? "w-ar" : "w-ddp", n, 1);
    int32_t last = -1;

    if (!b)
        return NULL;
    lw_builder_comm(b, "data", LW_COMM_DATA, LW_REDUCER_RING, COMM);
    all_ranks(b, 0, n, a);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    if (which == SIM_BENCH_W_AR)
        reduce(b, -1);
    for (int i = 0; which == SIM_BENCH_W_DDP && i < 10; i++)
        last = work(b, LW_OP_FORWARD, 1000 * LW_PS_PER_US, last);
    for (int i = 0; which == SIM_BENCH_W_DDP && i < 10; i++) {
        last = work(b, LW_OP_BACKWARD, 2000 * LW_PS_PER_US, last);
        reduce(b, last);
    }
    return b;
}

/* A message on the class that carries it down the pipeline (0) or back up (1). */
static int32_t message(struct lw_builder *b, enum lw_op_kind kind, int32_t comm, int32_t peer,
                       int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, comm == 0 ? DOWN : UP);

    op.comm = comm;
    op.bytes = MESSAGE_BYTES;
    op.peer = peer;
    return lw_builder_op(b, &op, &dep, dep >= 0);
}

static void stage(struct lw_builder *b, int32_t r, int32_t n)
{
    for (int m = 0; m < N_MICRO; m++) {
        int32_t in = r > 0 ? message(b, LW_OP_RECV, 0, r - 1, -1) : -1;
        int32_t f = work(b, LW_OP_FORWARD, 100 * LW_PS_PER_US, in);
        if (r + 1 < n)
            message(b, LW_OP_SEND, 0, r + 1, f);
    }
    for (int m = 0; m < N_MICRO; m++) {
        int32_t in = r + 1 < n ? message(b, LW_OP_RECV, 1, r + 1, -1) : -1;
        int32_t k = work(b, LW_OP_BACKWARD, 100 * LW_PS_PER_US, in);
        if (r > 0)
            message(b, LW_OP_SEND, 1, r - 1, k);
    }
}

static struct lw_builder *pipeline(int32_t n, struct lw_arena *a)
{
    struct lw_builder *b = begin("streams", n, n);

    if (!b)
        return NULL;
    lw_builder_stream(b, "down", LW_STREAM_COMM, 1);
    lw_builder_stream(b, "up", LW_STREAM_COMM, 1);
    lw_builder_comm(b, "forward", LW_COMM_FORWARD, LW_REDUCER_AUTO, DOWN);
    lw_builder_comm(b, "backward", LW_COMM_BACKWARD, LW_REDUCER_AUTO, UP);
    all_ranks(b, 0, n, a);
    all_ranks(b, 1, n, a);
    lw_builder_variant(b, "steady", "", true);
    for (int32_t r = 0; r < n; r++) {
        lw_builder_program(b, 0, r);
        stage(b, r, n);
    }
    return b;
}

enum lw_status sim_bench_plan(enum sim_bench which, int32_t n_ranks, struct lw_plan *plan,
                              struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct lw_builder *b = which == SIM_BENCH_STREAMS ? pipeline(n_ranks, &scratch)
                                                      : data_parallel(which, n_ranks, &scratch);

    lw_arena_free(&scratch);
    if (!b)
        return lw_fail_nomem(err);
    lw_builder_pass(b, 0);
    return lw_builder_finish(b, plan, err);
}

enum lw_status sim_bench_cluster(int32_t n, struct lw_cluster *c, struct lw_err *err)
{
    static const char source[] = "definition of the benchmark";
    struct lw_cluster x = {.name = "bench", .n_nodes = 1, .devices_per_node = n, .n_links = 1,
                           .library = "", .library_version = "", .about = source,
                           .device = {.kind = "bench"}};

    LW_TAKE(&x.arena, x.links, 1, err);
    x.links[0] = (struct lw_link){.name = "ring", .level = LW_LINK_INTRA,
                                  .bytes_per_s = {50e9, source},
                                  .latency_ps = {500.0 * LW_PS_PER_NS, source}};
    *c = x;
    return LW_OK;
}

static void fill_workload(struct lw_workload *w, int32_t each)
{
    for (int32_t m = 0; m < w->n_modules; m++)
        w->modules[m] = (struct lw_module){.name = "module", .forward_ps = LW_PS_PER_US,
                                           .backward_input_ps = LW_PS_PER_US,
                                           .backward_weight_ps = LW_PS_PER_US,
                                           .forward_flops = -1, .forward_bytes = -1,
                                           .output_bytes = -1, .kept_bytes = {-1, -1, -1}};
    for (int32_t i = 0; i < w->n_params; i++)
        w->params[i] = (struct lw_param){.name = "layer.weight", .numel = 64, .dtype = LW_F32,
                                         .module = i / each, .tied = -1,
                                         .trainable = true, .used = true, .ready_ps = -1};
}

enum lw_status sim_bench_workload(int32_t n_params, int32_t each, struct lw_workload *w,
                                  struct lw_err *err)
{
    struct lw_workload x = {.name = "bench", .n_params = n_params,
                            .n_modules = (n_params - 1) / each + 1,
                            .optimizer_ps = LW_PS_PER_MS};

    x.from.rank = x.from.step = -1;
    x.recorded.step_ps = x.recorded.step_spread_ps = -1;
    x.modules = lw_arena_alloc(&x.arena, x.n_modules, sizeof *x.modules);
    x.params = lw_arena_alloc(&x.arena, x.n_params, sizeof *x.params);
    if (!x.modules || !x.params) {
        lw_workload_free(&x);
        return lw_fail_nomem(err);
    }
    fill_workload(&x, each);
    *w = x;
    return LW_OK;
}
