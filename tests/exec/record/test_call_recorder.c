/* The preloaded recorders: every call of a program is in its file, and the program runs as before.
 *
 * NCCL: the program is lapwing itself over the fake NCCL, whose log counts independently. MPI:
 * lapwing over Open MPI, whose collectives follow from the plan. */
#include "tests/lib/unit.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/io/input.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "traces/calls/import_calls.h"

static void read_calls(const char *name, struct traces_recorded *c)
{
    struct lw_input in;
    struct lw_err err = {0};
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s", fixture_path(name));
    if (lw_input_read(path, 1 << 24, &in, &err) != LW_OK ||
        traces_recorded_read(&in, c, &err) != LW_OK)
        fail_msg("%s", err.msg);
    lw_input_free(&in);
}

static bool needs_fakes(void)
{
    const char *fakes = getenv("LAPWING_FAKE_GPU");

    if (fakes && *fakes)
        return false;
    printf("SKIP recording of NCCL: no CUDA toolkit, so no fake libraries\n");
    return true;
}

/* --- a program of one rank that makes nothing but calls --------------------------------------- */

enum { AT_ONCE = 100 };

struct id { /* ncclUniqueId */
    char internal[128];
};

static void *function(const char *name)
{
    void *f = dlsym(RTLD_DEFAULT, name);

    if (!f) {
        printf("%s is not preloaded\n", name);
        exit(1);
    }
    return f;
}

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* So many all-reduces of 16 f32; what each takes of this thread, without the waits between them. */
static int make_calls(int64_t n, const char *label)
{
    int (*init)(unsigned) = (int (*)(unsigned))function("cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))function("cuDevicePrimaryCtxRetain");
    int (*enter)(void *) = (int (*)(void *))function("cuCtxSetCurrent");
    int (*stream)(void **, unsigned, int) =
        (int (*)(void **, unsigned, int))function("cuStreamCreateWithPriority");
    int (*query)(void *) = (int (*)(void *))function("cuStreamQuery");
    int (*unique)(struct id *) = (int (*)(struct id *))function("ncclGetUniqueId");
    int (*join)(void **, int, struct id, int) =
        (int (*)(void **, int, struct id, int))function("ncclCommInitRank");
    int (*sum)(const void *, void *, size_t, int, int, void *, void *) =
        (int (*)(const void *, void *, size_t, int, int, void *, void *))function("ncclAllReduce");
    int (*leave)(void *) = (int (*)(void *))function("ncclCommDestroy");
    static float data[16];
    void *context, *s, *comm;
    double us = 0;
    struct id id;

    if (init(0) || retain(&context, 0) || enter(context) || stream(&s, 1, 0) || unique(&id) ||
        join(&comm, 1, id, 0))
        return 1;
    for (int64_t i = 0; i < n; i += AT_ONCE) {
        double from = cpu_us();
        for (int k = 0; k < AT_ONCE; k++)
            if (sum(data, data, 16, 7 /* ncclFloat32 */, 0, comm, s))
                return 1;
        us += cpu_us() - from;
        while (query(s) != 0)
            usleep(50);
    }
    printf("%s: %lld calls of NCCL's stand-in, %.3f us of CPU each\n", label, (long long)n,
           us / (double)n);
    return leave(comm);
}

static int calls_or_tests(int argc, char **argv)
{
    return argc == 4 && strcmp(argv[1], "--calls") == 0
               ? make_calls(strtoll(argv[2], NULL, 10), argv[3])
               : -1;
}

TEST_MAIN(calls_or_tests)

/* --- tests ------------------------------------------------------------------------------------ */

/* Counts of one op in a file and in the log of the fake. */
static int64_t count_of(const struct traces_recorded *c, enum lw_op_kind op)
{
    int64_t n = 0;

    for (int64_t i = 0; i < c->n; i++)
        n += c->calls[i].op == op;
    return n;
}

TEST(every_call_of_nccl_is_recorded)
{
    static const struct {
        const char *name;
        enum lw_op_kind op;
    } ops[] = {{"AllReduce", LW_OP_ALL_REDUCE},
               {"ReduceScatter", LW_OP_REDUCE_SCATTER},
               {"AllGather", LW_OP_ALL_GATHER},
               {"Broadcast", LW_OP_BROADCAST},
               {"Send", LW_OP_SEND},
               {"Recv", LW_OP_RECV},
               {"Reduce", LW_OP_REDUCE}};
    int64_t n[sizeof ops / sizeof *ops] = {0}, n_calls = 0, n_spans = 0;

    if (needs_fakes())
        skip();
    shell("$L model mlp --layers 8 --width 32 -o w.json >/dev/null", NULL);
    const char *out = shell(
        "export LD_LIBRARY_PATH=$LAPWING_FAKE_GPU FAKE_GPU_COUNT=4 FAKE_NCCL_LOG=$PWD/fake.log "
        "LAPWING_RECORD=$PWD/calls LAPWING_RECORD_EVENTS=1 LAPWING_PLUGINS=$(dirname $L) "
        "LD_PRELOAD=$LAPWING_ASAN:$(dirname $L)/lapwing-record.so; "
        "$L exec -w w.json --dp 2 --pp 2 --micro-batches 4 --zero 3 --spawn --backend nccl "
        "--compute sleep --steps 2 --warmup 1 --no-verify --no-db", NULL);
    assert_non_null(strstr(out, "not verified (--no-verify)"));
    for (int rank = 0; rank < 4; rank++) {
        struct traces_recorded c;
        char name[32];
        snprintf(name, sizeof name, "calls.rank%d.csv", rank);
        read_calls(name, &c);
        n_calls += c.n;
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
            n[k] += count_of(&c, ops[k].op);
        for (int64_t i = 0; i < c.n; i++)
            n_spans += c.calls[i].start_ns > 0 && c.calls[i].end_ns >= c.calls[i].start_ns;
        for (int32_t i = 0; i < c.n_comms; i++)
            assert_int_equal(c.comms[i].n_ranks, 2);
        assert_non_null(strstr(c.library, "nccl 2."));
        traces_recorded_free(&c);
    }
    int64_t logged = 0;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        char words[128];
        snprintf(words, sizeof words, "grep -c ': %s count' fake.log || true", ops[k].name);
        int64_t here = strtoll(shell(words, NULL), NULL, 10);
        assert_int_equal(n[k], here);
        logged += here;
    }
    assert_int_equal(n_calls, logged);
    assert_int_equal(n_spans, logged);
    assert_true(logged > 100);
}

/* Twenty thousand calls that follow each other closely: each is in the file. What recording costs
 * is printed by `make bench`. */
TEST(calls_without_a_pause_are_all_recorded)
{
    struct traces_recorded c;
    char self[PATH_MAX] = "", words[PATH_MAX + 256];

    if (needs_fakes())
        skip();
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(words, sizeof words,
             "RANK=0 LD_LIBRARY_PATH=$LAPWING_FAKE_GPU LAPWING_RECORD=$PWD/many "
             "LD_PRELOAD=$LAPWING_ASAN:$(dirname $L)/lapwing-record.so:libcuda.so.1:libnccl.so.2 "
             "%s --calls 20000 recorded",
             self);
    assert_non_null(strstr(shell(words, NULL), "recorded: 20000 calls"));
    read_calls("many.rank0.csv", &c);
    assert_int_equal(c.n, 20000);
    assert_int_equal(count_of(&c, LW_OP_ALL_REDUCE), 20000);
    traces_recorded_free(&c);
}

/* Members of one communicator give it one id; communicators of other members have other ids. */
TEST(ids_agree_over_ranks)
{
    struct traces_recorded c[4];

    if (needs_fakes())
        skip();
    for (int rank = 0; rank < 4; rank++) {
        char name[32];
        snprintf(name, sizeof name, "calls.rank%d.csv", rank);
        read_calls(name, &c[rank]);
    }
    for (int a = 0; a < 4; a++)
        for (int32_t i = 0; i < c[a].n_comms; i++) {
            int n_members = 0;
            for (int b = 0; b < 4; b++)
                for (int32_t k = 0; k < c[b].n_comms; k++)
                    n_members += c[a].comms[i].id == c[b].comms[k].id;
            assert_int_equal(n_members, c[a].comms[i].n_ranks);
        }
    for (int rank = 0; rank < 4; rank++)
        traces_recorded_free(&c[rank]);
}

/* Collectives of one kind and size on all ranks become a measured table, and the steps a period. */
TEST(recordings_are_inspected_and_imported)
{
    if (needs_fakes())
        skip();
    const char *out = lapwing("inspect calls.rank0.csv --format json", NULL);
    assert_non_null(strstr(out, "\"format\": \"calls\""));
    assert_non_null(strstr(out, "\"n_periods\": 3")); /* one unmeasured step and two measured ones */
    assert_non_null(
        strstr(lapwing("inspect calls.rank0.csv", NULL), "calls repeat 3 times at the end"));
    lapwing("import calls.rank*.csv --cluster-out c.json", NULL);
    char *text = fixture_get(fixture_path("c.json"));
    assert_non_null(strstr(text, "\"op\": \"reduce_scatter\""));
    assert_non_null(strstr(text, "shortest span of 2.0 of 2 members"));
    free(text);
    expect("import calls.rank0.csv -o w2.json", 1, "gives no workload");
    expect("import calls.rank0.csv calls.rank0.csv --cluster-out d.json", 1, "both of rank 0");
}

/* The program does not fail because its recording cannot be written. */
TEST(a_file_that_cannot_be_made_is_said_once)
{
    if (needs_fakes())
        skip();
    const char *out = shell(
        "export LD_LIBRARY_PATH=$LAPWING_FAKE_GPU LAPWING_RECORD=/nowhere/calls "
        "LAPWING_PLUGINS=$(dirname $L) LD_PRELOAD=$LAPWING_ASAN:$(dirname $L)/lapwing-record.so; "
        "FAKE_GPU_COUNT=2 $L exec -w w.json --dp 2 --spawn --backend nccl --compute sleep --steps "
        "2 "
        "--warmup 0 --no-db",
        NULL);
    assert_non_null(strstr(out, "bit by bit"));
    assert_non_null(strstr(out, "/nowhere/calls.rank0.csv: No such file"));
    const char *said = strstr(out, "/nowhere/calls.rank0.csv");
    assert_null(strstr(said + 1, "/nowhere/calls.rank0.csv"));
}

TEST(every_call_of_mpi_is_recorded)
{
    const char *built = getenv("LAPWING_MPI");
    struct traces_recorded c[2];

    if (!built || !*built) {
        printf("SKIP recording of MPI: no Open MPI here\n");
        skip();
    }
#ifdef __SANITIZE_THREAD__
    printf("SKIP recording of MPI: Open MPI is not built for the thread sanitizer\n");
    skip();
#endif
    shell("$L model mlp --layers 4 --width 32 -o m.json >/dev/null", NULL);
    const char *out =
        shell("export LAPWING_PLUGINS=$(dirname $L) OMPI_ALLOW_RUN_AS_ROOT=1 "
              "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$PWD "
              "ASAN_OPTIONS=detect_leaks=0; "
              "timeout 60 mpirun --oversubscribe -x LD_PRELOAD=$LAPWING_ASAN:$(dirname "
              "$L)/lapwing-record-mpi.so "
              "-x LAPWING_RECORD=$PWD/mpi -n 2 $L exec -w m.json --dp 2 --bucket-policy single "
              "--backend mpi --compute sleep --steps 3 --warmup 1 --no-verify --no-db",
              NULL);
    assert_non_null(strstr(out, "not verified (--no-verify)"));
    for (int rank = 0; rank < 2; rank++) {
        char name[32];
        int64_t n_sums = 0;
        snprintf(name, sizeof name, "mpi.rank%d.csv", rank);
        read_calls(name, &c[rank]);
        assert_non_null(strstr(c[rank].library, "mpi "));
        /* 4 layers of 32 x 32 weights and 32 biases, in one bucket, once a step */
        for (int64_t i = 0; i < c[rank].n; i++)
            n_sums += c[rank].calls[i].op == LW_OP_ALL_REDUCE &&
                      c[rank].calls[i].count == 4 * (32 * 32 + 32) && c[rank].calls[i].end_ns > 0;
        assert_int_equal(n_sums, 4);
    }
    assert_true(c[0].n_comms > 0);
    assert_int_equal(c[0].comms[0].id, c[1].comms[0].id);
    for (int rank = 0; rank < 2; rank++)
        traces_recorded_free(&c[rank]);
}

TEST_GROUP(fixture_open, fixture_close)
