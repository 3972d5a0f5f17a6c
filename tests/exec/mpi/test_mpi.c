/* The mpi backend under mpirun, on this machine: data, refusals, stopping. Each rank of the
 * tests that look at elements is this program again, with --rank and what to do. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "exec/launch/rendezvous.h"
#include "exec/run/run.h"
#include "shared/base/arena.h"
#include "tests/lib/exec/exec_collectives.h"
#include "tests/lib/exec/exec_ops.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/commands/mpi_fixture.h"
#include "tests/lib/files/says.h"

/* --- a rank ----------------------------------------------------------------------------------- */

/* Rank 1 brings one element less to an all-reduce. */
static enum lw_status disagree(const struct exec_backend *b, const struct exec_process *p,
                               int32_t n, struct lw_err *err)
{
    struct exec_open how = {.n_ranks = n,
                            .compute = EXEC_COMPUTE_SLEEP,
                            .timeout_ns = INT64_C(10000000000),
                            .process = p};
    struct exec_stamp stamp = {0};
    struct exec_stream *stream;
    struct exec_world *w;
    struct exec_comm *comm;
    int32_t members[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    void *mem = NULL;

    LW_TRY(b->open(&how, &w, err));
    LW_TRY(b->comm_create(w, members, n, &comm, err));
    LW_TRY(b->stream_create(w, p->rank, "comm", 1, &stream, err));
    LW_TRY(b->mem_alloc(w, p->rank, 400, &mem, err));
    struct exec_transfer x = {LW_OP_ALL_REDUCE, {mem, p->rank == 1 ? 99 : 100, LW_F32, -1}, &stamp};
    b->hold(w);
    LW_TRY(b->communicate(stream, comm, &x, 1, err));
    LW_TRY(b->release(w, err));
    enum exec_state s = b->poll(w, b->now_ns(w) + INT64_C(10000000000), err);
    b->close(w);
    return s == EXEC_FAILED ? err->code : lw_fail(err, LW_ENO, "state %d", (int)s);
}

/* The n-th allocation fails, n = 1, 2, ..., until all of a world of one goes through: each time
 * LW_ENOMEM and nothing kept. */
static enum lw_status starve(const struct exec_backend *b, struct lw_err *err)
{
    int64_t kept = lw_alloc_live(), checked = 0, n = 0;
    enum lw_status s = LW_ENOMEM;

    while (s == LW_ENOMEM && lw_alloc_live() == kept) {
        lw_alloc_fail_at(++n);
        s = exec_ops_run(b, NULL, 1, false, &checked, err);
        lw_alloc_fail_at(0);
    }
    if (s != LW_OK)
        return s;
    if (n < 20 || lw_alloc_live() != kept)
        return lw_fail(err, LW_ENO, "failure %lld: %lld blocks kept", (long long)n,
                       (long long)(lw_alloc_live() - kept));
    return LW_OK;
}

/* An all-to-all of 3 blocks of 200 bytes, run and verified; reversed: by members in another
 * order. */
static enum lw_status run_blocks(const struct exec_backend *b, const struct exec_process *p,
                                 bool reversed, int64_t *checked, struct lw_err *err)
{
    static const enum lw_op_kind kind = LW_OP_ALL_TO_ALL;
    static const int64_t bytes = 600;
    struct exec_backend wrong = exec_backend_reversed(b);
    struct lw_plan plan = exec_collectives_plan(&kind, &bytes, 1);
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_result r = {0};

    o.backend = reversed ? &wrong : b;
    o.compute = EXEC_COMPUTE_SLEEP;
    o.n_steps = 2;
    o.n_warmup = 0;
    o.process = p;
    enum lw_status s = lw_exec_run(&plan, &o, &r, err);
    *checked = r.n_checked_message_bytes;
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

static int be_rank(const char *what)
{
    struct exec_identity id = {.n_ranks = 1};
    struct exec_agreement same = {.backend = "mpi", .program = "test", .plan_hash = "0"};
    struct exec_rendezvous *r = NULL;
    struct exec_process process;
    struct lw_err err = {0};
    const struct exec_backend *b;
    int64_t checked = 0;
    bool several = false;
    enum lw_status s = exec_backend_find("mpi", &b, &err);

    if (s == LW_OK)
        s = exec_identity_read(&id, &several, &err);
    if (s == LW_OK && several)
        s = exec_rendezvous_open(&id, &same, INT64_C(20000000000), NULL, &r, &err);
    if (s == LW_OK && several)
        exec_rendezvous_process(r, &process);
    if (s == LW_OK && strcmp(what, "ops") == 0)
        s = exec_ops_run(b, several ? &process : NULL, id.n_ranks, true, &checked, &err);
    else if (s == LW_OK && strcmp(what, "starve") == 0)
        s = starve(b, &err);
    else if (s == LW_OK && strncmp(what, "blocks", 6) == 0)
        s = run_blocks(b, &process, strcmp(what, "blocks-reversed") == 0, &checked, &err);
    else if (s == LW_OK)
        s = disagree(b, &process, id.n_ranks, &err);
    printf("rank %d: code=%d checked=%lld %s\n", id.rank, (int)s, (long long)checked, err.msg);
    fflush(stdout);
    exec_rendezvous_close(r);
    return 0;
}

/* --- the parent ------------------------------------------------------------------------------- */

#define NEEDS_MPI()                                                                                \
    do {                                                                                           \
        (void)state;                                                                               \
        if (!has_mpirun()) {                                                                       \
            printf("SKIP %s: no Open MPI here (mpirun, ompi-c)\n", __func__);                      \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

TEST(every_collective_moves_the_right_elements)
{
    NEEDS_MPI();
    for (int32_t n = 1; n <= 4; n++) {
        char words[128];
        int rc;
        for (int32_t apart = unit_cases(n % 2, 0); apart < 2; apart += unit_cases(2, 1)) {
            snprintf(words, sizeof words, "%s$M -n %d $T --rank ops 2>&1",
                     apart ? "export LAPWING_MPI_APART=1; " : "", n);
            const char *out = mpi_shell(words, &rc);
            if (rc != 0 || count_words(out, "code=0") != n)
                fail_msg("%s: status %d:\n%s", words, rc, out);
        }
    }
}

TEST(blocks_of_an_all_to_all_are_compared)
{
    NEEDS_MPI();
    int rc;
    const char *out = mpi_shell("$M -n 3 $T --rank blocks 2>&1", &rc);

    for (int r = 0; r < 3; r++) {
        char words[64];
        snprintf(words, sizeof words, "rank %d: code=0 checked=1200 ", r); /* of 2 steps */
        has(out, words);
    }
    out = mpi_shell("$M -n 3 $T --rank blocks-reversed 2>&1", &rc);
    has(out, "op 0 (all_to_all ), element 0, rank 0: ");
    has(out, "; it is block 1 of rank 1, not block 1 of rank 2");
}

TEST(members_that_disagree_fail_by_name)
{
    NEEDS_MPI();
    int rc;
    const char *out = mpi_shell("$M -n 2 $T --rank disagree 2>&1", &rc);

    /* LW_EFAILED on both; who sees it first may tell the other before it looks itself */
    has(out, "rank 0: code=-8");
    has(out, "rank 1: code=-8");
    has(out, "all_reduce of 100 f32 (root -1)"); /* either may be the first */
    has(out, "all_reduce of 99 f32 (root -1)");
    out = mpi_shell("LAPWING_MPI_APART=1 $M -n 2 $T --rank disagree 2>&1", &rc);
    has(out, "members disagree: here it is all_reduce of ");
}

TEST(running_out_of_memory_leaks_nothing)
{
    NEEDS_MPI();
    int rc;

    has(mpi_shell("$M -n 1 $T --rank starve 2>&1", &rc), "rank 0: code=0");
}

TEST(every_kind_of_plan_ends_like_one_rank)
{
    static const char *const plans[] = {
        "2 --dp 2 --no-sync 2",
        "3 --dp 3 --comm-hook bf16",
        "3 --pp 3 --schedule zb-h1 --micro-batches 6",
        "4 --dp 2 --pp 2 --zero 1 --micro-batches 2 --clip 0.5",
        "4 --dp 2 --tp 2 --zero 3",
        "3 --dp 3 --zero 1 --broadcast-dtype f16 --grad-dtype bf16",
        /* with LAPWING_MANY */
        "2 --dp 2",
        "4 --dp 4 --zero 1",
        "4 --dp 2 --pp 2 --zero 1 --micro-batches 2 --overlap-param-gather on",
        "3 --dp 3 --bucket-policy per-tensor",
        "4 --pp 4 --schedule dualpipe --micro-batches 8",
        "4 --dp 2 --pp 2 --zero 1 --micro-batches 2 --consolidate 3",
        "3 --dp 3 --zero 3 --clip 1",
        "2 --dp 2 --micro-batches 2 --sync-each-micro-batch on --gradient-as-bucket-view on",
        "2 --pp 2 --micro-batches 4 --async-messages off",
    };
    NEEDS_MPI();

    mpi_shell("$L model mlp --layers 6 --width 64 -o w.json", NULL);
    for (int i = 0; i < unit_cases(6, sizeof plans / sizeof *plans); i++) {
        char words[512];
        int rc;
        snprintf(words, sizeof words,
                 "$M -n %c $L exec -w "
                 "w.json %s --backend mpi --compute sleep --momentum 0.5 --steps 2 --warmup 1 "
                 "--no-db --format json",
                 plans[i][0], plans[i] + 2);
        const char *out = mpi_shell(words, &rc);
        if (rc != 0 || count_words(out, "\"verified\": true") != 1 ||
            count_words(out, "\"plan_hash\"") != 1)
            fail_msg("%s: status %d\n%s", plans[i], rc, out); /* rank 0 alone writes */
    }
}

/* An embedding of 10 rows of 4, of which a micro-batch touches 3, on two processes that mpirun
 * starts. */
TEST(sparse_gradients_end_like_one_rank)
{
    NEEDS_MPI();
    int rc;
    const char *out = mpi_shell(
        "echo '{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"e\",\"modules\":[{\"name\":\"e\"}],"
        "\"params\":[{\"name\":\"w\",\"numel\":40,\"module\":0,\"sparse\":true}],"
        "\"sparse\":[{\"param\":0,\"row_numel\":4,\"touched_rows\":3}]}' > e.json && "
        "$M -n 2 $L exec -w e.json --dp 2 --backend mpi --compute sleep --steps 2 --no-db "
        "--format json",
        &rc);

    if (rc != 0 || count_words(out, "\"verified\": true") != 1)
        fail_msg("%s", out);
}

/* What the wrong mpirun does: each process sees an MPI world of its own. */
TEST(a_world_of_one_where_more_were_asked_is_refused)
{
    NEEDS_MPI();
    int rc;
    const char *out = mpi_shell(
        "$L model mlp --layers 2 --width 64 -o w.json >/dev/null; for r in 0 1; do "
        "PMI_RANK=$r PMI_SIZE=2 MPI_LOCALRANKID=$r timeout -k 10 240 $L exec -w w.json --dp 2 "
        "--backend mpi --no-db 2>&1 & done; wait",
        &rc);

    has(out, "this is rank 1 of 2, but MPI (Open MPI");
    has(out, "sees rank 0 in a world of 1");
}

TEST(refused_start_names_a_launcher)
{
    NEEDS_MPI();
    int rc;

    mpi_shell("$L model mlp --layers 2 --width 64 -o w.json", &rc);
    has(mpi_shell("$L exec -w w.json --dp 2 --backend mpi --no-db 2>&1", &rc),
        "start with mpirun -n 2, or srun");
    assert_int_equal(rc, 1);
    static const char *const spawning[] = {"exec -w w.json --dp 2 --no-db",
                                           "calibrate --ranks 3 -o c.json",
                                           "validate --here --ranks 2 w.json"};
    for (size_t i = 0; i < sizeof spawning / sizeof *spawning; i++) {
        char words[256];
        snprintf(words, sizeof words, "PATH=/nowhere $L %s --backend mpi --spawn 2>&1",
                 spawning[i]);
        has(mpi_shell(words, &rc), "mpirun (install Open MPI, or set PATH) cannot be started");
        assert_int_equal(rc, 1);
    }
    has(mpi_shell("$L exec -w w.json --dp 2 --backend mpi --spawn --no-db --steps 2 2>&1", &rc),
        "verified: ");
    assert_int_equal(rc, 0);
    has(mpi_shell("$M -n 3 $L exec -w w.json --dp 2 --backend mpi --no-db 2>&1", &rc),
        "OMPI_COMM_WORLD_SIZE) started 3 processes; the plan has 2 ranks");
    has(mpi_shell("$L exec --list-backends", &rc), "mpi      yes");
    has(mpi_shell("cp $L here && env -u LAPWING_PLUGINS ./here exec --list-backends", &rc),
        "lapwing-openmpi.so is not in $LAPWING_PLUGINS");
}

TEST(its_ranks_measure_one_cluster)
{
    NEEDS_MPI();
    int rc;
    const char *out = mpi_shell(
        "$M -n 2 $L calibrate --backend mpi --rounds 1 --steps 1 --max-bytes 16MiB --max-side 32 "
        "-o c.json --format json 2>&1 && $L cluster c.json",
        &rc);

    if (rc != 0 || count_words(out, "\"cluster\": \"calibrated host\"") != 1)
        fail_msg("status %d\n%s", rc, out);
    has(out, "\"op\": \"all_to_all\", \"n_ranks\": 2, \"n_in_flight\": 1, \"bytes\": 16777216");
    has(out, "\"op\": \"all_reduce\", \"n_ranks\": 2, \"n_in_flight\": 2, \"bytes\": 1024");
    has(out, "\"op\": \"send\", \"n_ranks\": 2, \"n_in_flight\": 2, \"bytes\": 16777216");
    has(out, "\"kind\": \"adam\", \"dtype\": \"f32\", \"from\": \"f32\", \"size\": 16777216");
    /* and run the grid of validate --here on it: rank 0 alone stores and prints, once */
    out = mpi_shell("$M -n 2 $L validate --here --backend mpi -c c.json w.json --steps 2 --only "
                    "'zero 1, flat' --db v.db --format json 2>&1; $L runs --db v.db --format csv",
                    &rc);
    has(out, "mpi backend, verified bitwise");
    assert_int_equal(count_words(out, "flat\", \"family\""), 1);
    assert_int_equal(count_words(out, ",exec,ok,"), 1);
    assert_int_equal(count_words(out, ",sim,ok,"), 1);
    has(mpi_shell("$M -n 2 $L calibrate --backend mpi --ranks 3 -o d.json 2>&1", &rc),
        "OMPI_COMM_WORLD_SIZE) started 2 processes");
}

/* mpirun's own message goes to its standard error, and the ranks never come. */
TEST(root_is_told_what_open_mpi_asks_of_it)
{
    int rc;

    NEEDS_MPI();
    if (geteuid() != 0) {
        printf("SKIP root_is_told_what_open_mpi_asks_of_it: not root here\n");
        skip();
    }
    const char *out = mpi_shell("unset OMPI_ALLOW_RUN_AS_ROOT; $L exec -w mlp --dp 2 --spawn "
                                "--backend mpi --compute sleep --no-db --steps 1 2>&1",
                                &rc);
    assert_int_equal(rc, 1);
    has(out, "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
}

static int rank_or_tests(int argc, char **argv)
{
    return argc == 3 && strcmp(argv[1], "--rank") == 0 ? be_rank(argv[2]) : -1;
}

/* Session folders of Open MPI are in the test's folder, because several mpirun of one user remove
 * each other's. */
static int open_folder(void **state)
{
    fixture_open(state);
    return setenv("OMPI_MCA_orte_tmpdir_base", fixture_path(""), 1);
}

TEST_GROUP(open_folder, fixture_close)

TEST_MAIN(rank_or_tests)
