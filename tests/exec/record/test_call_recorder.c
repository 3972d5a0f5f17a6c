/* The preloaded recorders: every call of a program is in its file, and the program runs as before.
 *
 * NCCL: the program is lapwing itself over the fake NCCL, whose log counts independently. MPI:
 * lapwing over Open MPI, whose collectives follow from the plan. */
#include "tests/lib/unit.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

/* PREFIX.rank0.csv ... of n ranks. */
static void read_ranks(const char *prefix, int n, struct traces_recorded *c)
{
    for (int rank = 0; rank < n; rank++) {
        char name[32];
        snprintf(name, sizeof name, "%s.rank%d.csv", prefix, rank);
        read_calls(name, &c[rank]);
    }
}

static void free_ranks(struct traces_recorded *c, int n)
{
    for (int rank = 0; rank < n; rank++)
        traces_recorded_free(&c[rank]);
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

enum { AT_ONCE = 100, N_THREADS = 4, N_CHILDREN = 200 };

struct id { /* ncclUniqueId */
    char internal[128];
};

typedef int sum_fn(const void *, void *, size_t, int, int, void *, void *);

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

struct caller { /* a thread with a communicator of its own */
    int64_t n;
    double us;    /* of its processor time within calls; -1: one failed */
    bool spoiled; /* makes a group that fails, too */
};

/* An all-reduce, and a send to a rank that does not exist; false: the group does not fail. */
static bool group_fails(void *comm, void *stream)
{
    int (*start)(void) = (int (*)(void))function("ncclGroupStart");
    int (*end)(void) = (int (*)(void))function("ncclGroupEnd");
    sum_fn *sum = (sum_fn *)function("ncclAllReduce");
    int (*send)(const void *, size_t, int, int, void *, void *) =
        (int (*)(const void *, size_t, int, int, void *, void *))function("ncclSend");
    float data[16] = {0};

    return start() == 0 && sum(data, data, 16, 7, 0, comm, stream) == 0 &&
           send(data, 16, 7, 5, comm, stream) != 0 && end() != 0;
}

/* So many all-reduces of 16 f32; what they take of this thread, without the waits between them. */
static void *make_calls(void *arg)
{
    struct caller *k = arg;
    int (*retain)(void **, int) = (int (*)(void **, int))function("cuDevicePrimaryCtxRetain");
    int (*enter)(void *) = (int (*)(void *))function("cuCtxSetCurrent");
    int (*stream)(void **, unsigned, int) =
        (int (*)(void **, unsigned, int))function("cuStreamCreateWithPriority");
    int (*query)(void *) = (int (*)(void *))function("cuStreamQuery");
    int (*unique)(struct id *) = (int (*)(struct id *))function("ncclGetUniqueId");
    int (*join)(void **, int, struct id, int) =
        (int (*)(void **, int, struct id, int))function("ncclCommInitRank");
    sum_fn *sum = (sum_fn *)function("ncclAllReduce");
    int (*leave)(void *) = (int (*)(void *))function("ncclCommDestroy");
    float data[16] = {0};
    void *context, *s, *comm;
    struct id id;
    bool failed = retain(&context, 0) || enter(context) || stream(&s, 1, 0) || unique(&id) ||
                  join(&comm, 1, id, 0);

    for (int64_t i = 0; !failed && i < k->n; i += AT_ONCE) {
        double from = cpu_us();
        for (int c = 0; c < AT_ONCE; c++)
            failed |= sum(data, data, 16, 7 /* ncclFloat32 */, 0, comm, s) != 0;
        k->us += cpu_us() - from;
        while (query(s) != 0)
            usleep(50);
    }
    if (failed || (k->spoiled && !group_fails(comm, s)) || leave(comm))
        k->us = -1;
    return NULL;
}

/* Children that do nothing, while threads make calls; false: one did not end. */
static bool children_end(void)
{
    for (int i = 0; i < N_CHILDREN; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            exit(0);
        }
        if (waitpid(pid, &status, 0) != pid || status != 0)
            return false;
    }
    return true;
}

/* LABEL: how it is called, and how it ends. */
static int call(int64_t n, const char *label)
{
    int (*init)(unsigned) = (int (*)(unsigned))function("cuInit");
    bool threads = strcmp(label, "threads") == 0;
    struct caller k[N_THREADS] = {{0}};
    pthread_t thread[N_THREADS];
    double us = 0;

    if (strcmp(label, "forked") == 0 && fork() == 0)
        n /= 2; /* parent and child are told apart by the number */
    if (init(0))
        return 1;
    for (int i = 0; threads && i < N_THREADS; i++) {
        k[i].n = n / N_THREADS;
        pthread_create(&thread[i], NULL, make_calls, &k[i]);
    }
    if (threads && !children_end())
        return 1;
    if (!threads) {
        k[0].n = n;
        k[0].spoiled = strcmp(label, "spoiled") == 0;
        make_calls(&k[0]);
    }
    for (int i = 0; threads && i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < N_THREADS; i++) {
        if (k[i].us < 0)
            return 1;
        us += k[i].us;
    }
    printf("%s: %lld calls of NCCL's stand-in, %.3f us of CPU each\n", label, (long long)n,
           us / (double)n);
    fflush(stdout);
    if (strcmp(label, "killed") == 0)
        raise(SIGKILL);
    if (strcmp(label, "_exit") == 0)
        _exit(0);
    wait(NULL);
    return 0;
}

/* All-reduces of 16 floats by Open MPI, whose handles are these objects. */
static int call_mpi(int64_t n, const char *label)
{
    int (*init)(int *, char ***) = (int (*)(int *, char ***))function("MPI_Init");
    int (*sum)(const void *, void *, int, void *, void *, void *) =
        (int (*)(const void *, void *, int, void *, void *, void *))function("MPI_Allreduce");
    int (*finalize)(void) = (int (*)(void))function("MPI_Finalize");
    void *type = function("ompi_mpi_float"), *op = function("ompi_mpi_op_sum");
    void *world = function("ompi_mpi_comm_world");
    float in[16] = {0}, out[16];
    double from;
    bool failed = init(NULL, NULL) != 0;

    from = cpu_us();
    for (int64_t i = 0; !failed && i < n; i++)
        failed = sum(in, out, 16, type, op, world) != 0;
    printf("%s: %lld calls of Open MPI, %.3f us of CPU each\n", label, (long long)n,
           (cpu_us() - from) / (double)n);
    return failed || finalize() != 0;
}

static int calls_or_tests(int argc, char **argv)
{
    if (argc != 4)
        return -1;
    return strcmp(argv[1], "--calls") == 0       ? call(strtoll(argv[2], NULL, 10), argv[3])
           : strcmp(argv[1], "--mpi-calls") == 0 ? call_mpi(strtoll(argv[2], NULL, 10), argv[3])
                                                 : -1;
}

TEST_MAIN(calls_or_tests)

/* --- tests ------------------------------------------------------------------------------------ */

/* Counts of one op in a file and in the log of the fake. */
static int64_t count_of(const struct traces_recorded *c, int32_t op)
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
        "--compute sleep --steps 2 --warmup 1 --no-verify --no-db",
        NULL);
    assert_non_null(strstr(out, "not verified (--no-verify)"));
    struct traces_recorded all[4];
    read_ranks("calls", 4, all);
    for (struct traces_recorded *c = all; c < all + 4; c++) {
        n_calls += c->n;
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
            n[k] += count_of(c, (int32_t)ops[k].op);
        for (int64_t i = 0; i < c->n; i++)
            n_spans += c->calls[i].start_ns > 0 && c->calls[i].end_ns >= c->calls[i].start_ns;
        for (int32_t i = 0; i < c->n_comms; i++)
            assert_int_equal(c->comms[i].n_ranks, 2);
        assert_non_null(strstr(c->library, "nccl 2."));
    }
    free_ranks(all, 4);
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

static const char nccl[] = "lapwing-record.so:libcuda.so.1:libnccl.so.2";

static const char *run_calls(const char *before, const char *preloaded, const char *kind,
                             const char *label)
{
    char self[PATH_MAX] = "", words[PATH_MAX + 256];

    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(words, sizeof words,
             "rm -f many*; %s env RANK=0 LAPWING_RECORD=$PWD/many "
             "LD_LIBRARY_PATH=$LAPWING_FAKE_GPU LD_PRELOAD=$LAPWING_ASAN:$(dirname $L)/%s "
             "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=atexit_sleep_ms=0 %s --%s 20000 %s; "
             "mv many.rank0.pid*.csv child.csv 2>/dev/null; true",
             before, preloaded, self, kind, label);
    return shell(words, NULL);
}

/* The number of calls in `file`, all all-reduces, of the program above. */
static int64_t calls_recorded(const char *preloaded, const char *kind, const char *label,
                              const char *file)
{
    struct traces_recorded c;
    const char *out = run_calls("", preloaded, kind, label);

    if (!strstr(out, ": 20000 calls"))
        fail_msg("%s: %s", label, out);
    read_calls(file, &c);
    int64_t n = count_of(&c, LW_OP_ALL_REDUCE);
    assert_int_equal(c.n, n);
    traces_recorded_free(&c);
    return n;
}

/* Twenty thousand calls that follow each other closely: each is in the file. What recording costs
 * is printed by `make bench`. Nothing of a group that failed has run. A process that ends by a
 * signal or _exit has written all of its calls; zero bytes follow. Beside four threads children are
 * forked that end without a call. A child that makes calls has the same rank in its environment,
 * and a file of its own. */
TEST(calls_are_all_recorded_however_a_program_makes_them_and_ends)
{
    static const struct {
        const char *label, *file;
        int64_t n;
    } cases[] = {
        {"recorded", "many.rank0.csv", 20000}, {"spoiled", "many.rank0.csv", 20000},
        {"killed", "many.rank0.csv", 20000},   {"_exit", "many.rank0.csv", 20000},
        {"threads", "many.rank0.csv", 20000},  {"forked", "many.rank0.csv", 20000},
        {"forked", "child.csv", 10000},
    };

    if (needs_fakes())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n = calls_recorded(nccl, "calls", cases[i].label, cases[i].file);
        if (n != cases[i].n)
            fail_msg("%s: %lld calls in %s", cases[i].label, (long long)n, cases[i].file);
    }
}

/* The second one replaces the file of the first, which still runs. */
TEST(two_processes_of_one_name_both_end)
{
    if (needs_fakes())
        skip();
    const char *out = run_calls("for i in 1 2; do", nccl, "calls", "twice & sleep 0.2; done; wait");
    const char *first = strstr(out, "twice: 20000 calls");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "twice: 20000 calls"));
}

/* Members of one communicator give it one id; communicators of other members have other ids. */
TEST(ids_agree_over_ranks)
{
    struct traces_recorded c[4];

    if (needs_fakes())
        skip();
    read_ranks("calls", 4, c);
    for (int a = 0; a < 4; a++)
        for (int32_t i = 0; i < c[a].n_comms; i++) {
            int n_members = 0;
            for (int b = 0; b < 4; b++)
                for (int32_t k = 0; k < c[b].n_comms; k++)
                    n_members += c[a].comms[i].id == c[b].comms[k].id;
            assert_int_equal(n_members, c[a].comms[i].n_ranks);
        }
    free_ranks(c, 4);
}

/* Collectives of one kind and size on all ranks become a measured table, and the steps a period. */
TEST(recordings_are_inspected_and_imported)
{
    if (needs_fakes())
        skip();
    const char *out = lapwing("inspect calls.rank0.csv --format json", NULL);
    assert_non_null(strstr(out, "\"format\": \"calls\""));
    /* one unmeasured step and two measured ones */
    assert_non_null(strstr(out, "\"n_periods\": 3"));
    assert_non_null(
        strstr(lapwing("inspect calls.rank0.csv", NULL), "calls repeat 3 times at the end"));
    lapwing("import calls.rank*.csv --cluster-out c.json", NULL);
    char *text = fixture_get(fixture_path("c.json"));
    assert_non_null(strstr(text, "\"op\": \"reduce_scatter\""));
    assert_non_null(strstr(text, "shortest span of 2.0 of 2 members"));
    free(text);
    expect("import calls.rank0.csv -o w2.json", 1, "gives no workload");
    expect("import calls.rank0.csv calls.rank0.csv --cluster-out d.json", 1, "are one file");
    shell("cp calls.rank0.csv again.csv", NULL);
    expect("import calls.rank0.csv again.csv --cluster-out d.json", 1, "both of rank 0");
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

/* --- what the headers declare ----------------------------------------------------------------- */

/* The name of the function that is declared at `type` as PREFIX...(...); *end: its semicolon. */
static bool declared(const char *at, const char *type, const char *prefix, char name[64],
                     const char **end)
{
    at += strlen(type);
    at += strspn(at, " ");
    *end = strchr(at, ';');
    return strncmp(at, prefix, strlen(prefix)) == 0 && sscanf(at, "%63[A-Za-z_]", name) == 1 &&
           at[strlen(name)] == '(' && *end;
}

/* The definition is the recorder's own: a search of its handle finds the library's as well. */
static bool is_of(void *library, const char *name, const char *recorder)
{
    Dl_info of = {0};
    void *function = dlsym(library, name);
    const char *file =
        function && dladdr(function, &of) && of.dli_fname ? strrchr(of.dli_fname, '/') : NULL;

    return file && strcmp(file + 1, recorder) == 0;
}

/* They have a communicator and a type, and move nothing between ranks. */
static bool is_packing(const char *name)
{
    return strcmp(name, "MPI_Pack") == 0 || strcmp(name, "MPI_Pack_size") == 0 ||
           strcmp(name, "MPI_Unpack") == 0;
}

/* Every function of a header whose parameters, as text, have all of `words` is defined in the
 * recorder. Returns how many there are. */
static int each_is_defined(const char *header, const char *type, const char *prefix,
                           const char *const *words, const char *recorder)
{
    char path[PATH_MAX], name[64];
    char *text = fixture_get(header);
    const char *end;
    int n = 0;

    snprintf(path, sizeof path, "%s", getenv("LAPWING"));
    snprintf(strrchr(path, '/'), 64, "/%s", recorder);
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    for (const char *at = text; (at = strstr(at, type)); at++) {
        bool all = declared(at, type, prefix, name, &end) && !is_packing(name);
        for (int w = 0; all && words[w]; w++) {
            const char *found = strstr(at, words[w]);
            all = found && found < end;
        }
        n += all;
        if (all && !is_of(library, name, recorder))
            fail_msg("%s of %s is not in %s", name, header, recorder);
    }
    free(text);
    return n;
}

/* NCCL: whatever takes a stream. */
TEST(every_function_of_nccl_that_moves_data_is_intercepted)
{
    static const char *const words[] = {"ncclComm_t", "cudaStream_t", NULL};

    if (needs_fakes())
        skip();
    const char *header = shell("printf %s $(ls $CUDA_HOME/include/nccl.h "
                               "/usr/local/cuda/include/nccl.h /usr/include/nccl.h "
                               "2>/dev/null | head -1)",
                               NULL);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", header);
    const char *at = strchr(path, '/');
    if (!at) {
        printf("SKIP functions of NCCL: no nccl.h\n");
        skip();
    }
    assert_true(each_is_defined(at, "ncclResult_t", "nccl", words, "lapwing-record.so") >= 8);
}

static bool needs_mpi(void)
{
    const char *built = getenv("LAPWING_MPI");

#ifdef __SANITIZE_THREAD__
    printf("SKIP recording of MPI: Open MPI is not built for the thread sanitizer\n");
    return true;
#endif
    if (built && *built)
        return false;
    printf("SKIP recording of MPI: no Open MPI here\n");
    return true;
}

TEST(calls_of_mpi_without_a_pause_are_all_recorded)
{
    if (needs_mpi())
        skip();
    assert_int_equal(calls_recorded("lapwing-record-mpi.so:libmpi.so.40", "mpi-calls", "recorded",
                                    "many.rank0.csv"),
                     20000);
}

#define AS_ROOT                                                                                    \
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "                            \
    "OMPI_MCA_orte_tmpdir_base=$PWD ASAN_OPTIONS=detect_leaks=0; "
#define PRELOAD "LD_PRELOAD=$LAPWING_ASAN:$(dirname $L)/lapwing-record-mpi.so "
#define MPIRUN "timeout -k 10 60 mpirun --oversubscribe -x " PRELOAD "-n 2 -x LAPWING_RECORD=$PWD/"

TEST(every_call_of_mpi_is_recorded)
{
    struct traces_recorded c[2];

    if (needs_mpi())
        skip();
    shell("$L model mlp --layers 4 --width 32 -o m.json >/dev/null", NULL);
    const char *out =
        shell(AS_ROOT "export LAPWING_PLUGINS=$(dirname $L); " MPIRUN
                      "mpi $L exec -w m.json --dp 2 --bucket-policy single "
                      "--backend mpi --compute sleep --steps 3 --warmup 1 --no-verify --no-db",
              NULL);
    assert_non_null(strstr(out, "not verified (--no-verify)"));
    read_ranks("mpi", 2, c);
    for (int rank = 0; rank < 2; rank++) {
        int64_t n_sums = 0;
        assert_non_null(strstr(c[rank].library, "mpi "));
        /* 4 layers of 32 x 32 weights and 32 biases, in one bucket, once a step */
        for (int64_t i = 0; i < c[rank].n; i++)
            n_sums += c[rank].calls[i].op == LW_OP_ALL_REDUCE &&
                      c[rank].calls[i].count == 4 * (32 * 32 + 32) && c[rank].calls[i].end_ns > 0;
        assert_int_equal(n_sums, 4);
    }
    assert_true(c[0].n_comms > 0);
    assert_int_equal(c[0].comms[0].id, c[1].comms[0].id);
    free_ranks(c, 2);
}

/* MPI: whatever takes a type and a communicator or window, or starts a persistent call. Types
 * and files have no communicator; packing moves nothing. */
TEST(every_function_of_mpi_that_moves_data_is_intercepted)
{
    static const char *const kinds[][4] = {
        {"MPI_", "MPI_Datatype", "MPI_Comm comm", NULL},
        {"MPI_", "MPI_Datatype", "MPI_Win win", NULL},
        {"MPI_", "MPI_Datatype", "MPI_Message", NULL},
        {"MPI_Start", "MPI_Request", NULL},
        {"MPI_Barrier", "MPI_Comm", NULL},
        {"MPI_Ibarrier", "MPI_Comm", NULL},
    };
    char path[PATH_MAX];
    int n = 0;

    if (needs_mpi())
        skip();
    snprintf(path, sizeof path, "%s",
             shell("printf %s/mpi.h $(mpicc --showme:incdirs | "
                   "tr ' ' '\\n' | head -1)",
                   NULL));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        n += each_is_defined(strchr(path, '/'), "int", kinds[i][0], kinds[i] + 1,
                             "lapwing-record-mpi.so");
    assert_true(n > 70); /* MPI 3.1 */
}

/* Two ranks make calls that no plan makes: in place, non-blocking, persistent, with MPI_PROC_NULL,
 * on a communicator of the same members, and from Fortran, whose interfaces call PMPI. */
static const char calls_of_all_kinds[] =
    "#include <mpi.h>\n"
    "int main(void) {\n"
    "  int rank, a[4] = {0}, b[4]; MPI_Comm twin; MPI_Request q[2]; MPI_Win w;\n"
    "  MPI_Init(0, 0); MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n"
    "  MPI_Allreduce(MPI_IN_PLACE, a, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n"
    "  MPI_Comm_dup(MPI_COMM_WORLD, &twin);\n"
    "  MPI_Allreduce(a, b, 3, MPI_INT, MPI_SUM, twin);\n"
    "  MPI_Ibcast(a, 2, MPI_INT, 0, MPI_COMM_WORLD, q); MPI_Wait(q, MPI_STATUS_IGNORE);\n"
    "  MPI_Gather(rank ? a : MPI_IN_PLACE, 2, MPI_INT, a, 2, MPI_INT, 0, MPI_COMM_WORLD);\n"
    "  MPI_Send_init(a, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, q);\n"
    "  MPI_Recv_init(b, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, q + 1);\n"
    "  for (int i = 0; i < 3; i++) {\n"
    "    MPI_Startall(2, q); MPI_Waitall(2, q, MPI_STATUSES_IGNORE); }\n"
    "  MPI_Request_free(q); MPI_Request_free(q + 1);\n"
    "  MPI_Sendrecv(a, 4, MPI_INT, MPI_PROC_NULL, 1, b, 4, MPI_INT, MPI_PROC_NULL, 1, twin, 0);\n"
    "  PMPI_Barrier(MPI_COMM_WORLD); /* as Fortran's interfaces do */\n"
    "  MPI_Win_create(b, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w); MPI_Win_fence(0, w);\n"
    "  MPI_Put(a, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, w); MPI_Win_fence(0, w);\n"
    "  MPI_Win_free(&w); MPI_Finalize(); return 0; }\n";

TEST(calls_of_mpi_that_no_plan_makes_are_recorded)
{
    struct traces_recorded c[2];

    if (needs_mpi())
        skip();
    fixture_put(fixture_path("all.c"), calls_of_all_kinds);
    int rc;
    const char *out = shell(AS_ROOT "mpicc all.c -o all && " MPIRUN "all ./all", &rc);
    if (rc != 0)
        fail_msg("%s", out);
    read_ranks("all", 2, c);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(count_of(&c[rank], LW_OP_ALL_REDUCE), 2);
        assert_int_equal(count_of(&c[rank], LW_OP_BROADCAST), 1);
        assert_int_equal(count_of(&c[rank], TRACES_CALL_GATHER), 1);
        assert_int_equal(count_of(&c[rank], LW_OP_SEND), 4);
        assert_int_equal(count_of(&c[rank], LW_OP_RECV), 4);
        assert_true(count_of(&c[rank], LW_OP_BARRIER) >= 1);
        assert_string_equal(c[rank].lost, "MPI_Put");
        assert_int_equal(c[rank].calls[0].count, 4);
        assert_int_equal(c[rank].n_comms, 2);
        assert_true(c[rank].comms[0].id != c[rank].comms[1].id);
    }
    assert_int_equal(c[0].comms[1].id, c[1].comms[1].id);
    free_ranks(c, 2);
    assert_non_null(
        strstr(lapwing("inspect all.rank0.csv", NULL), "not recorded: calls of MPI_Put"));
}

/* The first line of a Startall has its time, the others 0; the 4097th request is named. */
TEST(persistent_calls_have_their_time_once_and_a_limit_that_is_named)
{
    struct traces_recorded c;
    int rc;

    if (needs_mpi())
        skip();
    fixture_put(fixture_path("many_requests.c"),
                "#include <mpi.h>\n"
                "int main(void) { int a, b; MPI_Request q[2], more; MPI_Init(0, 0);\n"
                "MPI_Recv_init(&b, 1, MPI_INT, 0, 5, MPI_COMM_SELF, q);\n"
                "MPI_Send_init(&a, 1, MPI_INT, 0, 5, MPI_COMM_SELF, q + 1);\n"
                "MPI_Startall(2, q); MPI_Waitall(2, q, MPI_STATUSES_IGNORE);\n"
                "for (int i = 2; i < 4097; i++)\n"
                "MPI_Send_init(&a, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &more);\n"
                "MPI_Finalize(); return 0; }\n");
    const char *out = shell(AS_ROOT "mpicc many_requests.c -o many_requests && RANK=0 "
                                    "LAPWING_RECORD=$PWD/starts " PRELOAD "./many_requests",
                            &rc);
    if (rc != 0)
        fail_msg("%s", out);
    read_calls("starts.rank0.csv", &c);
    assert_int_equal(c.n, 2);
    assert_true(c.calls[0].host_ns > 0);
    assert_int_equal(c.calls[1].host_ns, 0);
    assert_string_equal(c.lost, "MPI_Start");
    traces_recorded_free(&c);
}

/* 0, 7 and 3 are Open MPI's MPI_COMM_WORLD, MPI_INTEGER and MPI_SUM in Fortran. */
TEST(calls_from_fortran_are_recorded)
{
    struct traces_recorded c;
    int rc;

    if (needs_mpi())
        skip();
    fixture_put(fixture_path("fortran.c"),
                "void mpi_init_(int *), mpi_finalize_(int *);\n"
                "void mpi_allreduce_(void *, void *, int *, int *, int *, int *, int *);\n"
                "int main(void) { int error, a[5] = {0}, b[5], n = 5, world = 0, type = 7;\n"
                "int sum = 3; mpi_init_(&error);\n"
                "mpi_allreduce_(a, b, &n, &type, &sum, &world, &error);\n"
                "mpi_finalize_(&error); return error; }\n");
    const char *out = shell(AS_ROOT "mpicc fortran.c -o fortran -lmpi_mpifh || exit 9; RANK=0 "
                                    "LAPWING_RECORD=$PWD/fortran " PRELOAD "./fortran",
                            &rc);
    if (rc == 9) {
        printf("SKIP calls from Fortran: no libmpi_mpifh\n");
        skip();
    }
    if (rc != 0)
        fail_msg("%s", out);
    read_calls("fortran.rank0.csv", &c);
    assert_int_equal(count_of(&c, LW_OP_ALL_REDUCE), 1);
    assert_int_equal(c.calls[0].count, 5);
    assert_true(c.calls[0].dtype_known && c.calls[0].dtype == LW_I32);
    traces_recorded_free(&c);
}

TEST_GROUP(fixture_open, fixture_close)
