/* Commands on the NCCL backend against the fake driver, NCCL and cuBLAS of tests/fake_gpu: ranks as
 * processes and as streams, launchers, what is stored and printed. Nothing here says that it works,
 * or how fast, on a GPU. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/fake_gpu.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define SHORT "--backend nccl --compute sleep --steps 2 --warmup 1 --no-db "

static int models(void **state)
{
    fixture_open(state);
    shell("$L model mlp --layers 4 --width 64 -o w.json && "
          "$L model mlp --layers 16 --width 32 -o deep.json",
          NULL);
    return 0;
}

/* cuGraphInstantiateWithFlags came with CUDA 11.4, ncclCommSplit with NCCL 2.18.1. */
TEST(headers_that_are_too_old_are_named_and_left_out)
{
    static const char *const cases[][3] = {
        {"11030", "22809", "CUDA_VERSION 11030 (oldest: 11040)"},
        {"11040", "21700", "NCCL_VERSION_CODE 21700 (oldest: 21801)"},
        {"11040", "21801", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[512];
        int rc;
        snprintf(words, sizeof words,
                 "mkdir -p old/bin old/include; touch old/bin/nvcc old/include/cublas_v2.h; "
                 "echo '#define CUDA_VERSION %s' >old/include/cuda.h; "
                 "echo '#define NCCL_VERSION_CODE %s' >old/include/nccl.h; "
                 "env -u MAKEFLAGS make -s -n -C $P plugins CUDA_HOME=$PWD/old MPI=0 2>&1 | "
                 "grep 'LEFT OUT.*nccl'",
                 cases[i][0], cases[i][1]);
        const char *out = shell(words, &rc);
        if (cases[i][2][0])
            has(out, cases[i][2]);
        else
            assert_string_equal(out, "");
    }
}

TEST_GROUP(models, fixture_close)

/* "lapwing exec ARGS", in the environment of these words, succeeds. */
static const char *exec_with(const char *environment, const char *args)
{
    char words[2048];
    int rc;

    snprintf(words, sizeof words, "%s $L exec %s", environment, args);
    const char *out = fake_shell(words, &rc);
    if (rc != 0)
        fail_msg("%s: exit %d:\n%s", words, rc, out);
    return out;
}

/* It also ends with the weights of one rank. */
static const char *verified(const char *environment, const char *args)
{
    char words[1024];

    snprintf(words, sizeof words, "%s --format json", args);
    const char *out = exec_with(environment, words);
    has(out, "\"verified\": true");
    return out;
}

TEST(spawned_processes_store_one_run)
{
    needs_fakes();
    const char *out = verified("", "-w w.json --dp 3 --backend nccl --spawn --ranks 3 --compute "
                                   "sleep --steps 2 --warmup 1 --db spawned.db");

    has(out, "\"honesty\": \"sleep\"");
    has(out, "\"rank\": 2"); /* rank 0 has everybody's times */
    out = lapwing("runs --db spawned.db --format json", NULL);
    has(out, "\"id\": 1");
    has_not(out, "\"id\": 2");
}

/* One bucket of 66,560 B on three ranks. The fake estimates 10 us and 10 GB/s: 16.656 us. The model
 * is that of `lapwing cost`: 8.851 us on three of a DGX H100, calibrated. */
TEST(the_librarys_estimate_stands_beside_model_and_measured)
{
    needs_fakes();
    const char *out = exec_with("", SHORT "-w w.json -c dgx-h100 --as-recorded --dp 3 --spawn "
                                          "--format json");

    has(out, "{\"op\": \"all_reduce\", \"n_ranks\": 3, \"n_nodes\": 1, \"bytes\": 66560, "
             "\"estimate_ns\": 16656, \"model_ns\": 8851, \"measured_ns\": ");
    has(out, "\"n_measured\": 2}");
    expect("cost -c dgx-h100 --ranks 3 --bytes 66560 --format json", 0, "\"time_ns\": 8851");
    out = exec_with("", SHORT "-w w.json --dp 2 --transport loop --format json");
    has_not(out, "estimate_ns"); /* a loop makes no calls of the library */
}

TEST(a_loop_runs_from_the_command_line)
{
    needs_fakes();
    has(exec_with("", SHORT "-w w.json --dp 2 --transport loop"), "ranks are streams");
    has(exec_with("", SHORT "-w w.json --dp 2 --zero 1 --broadcast-dtype bf16 --grad-dtype f16 "
                            "--transport loop"),
        "bit by bit");
}

/* Module a has FLOPs and hardly any bytes, b has bytes and no FLOPs: products on tensor cores, and
 * copies. In f32 no bf16 products are measured; where no bytes are known, no copies. */
TEST(time_is_filled_with_work_of_the_ops_kind)
{
    needs_fakes();
    static const struct {
        const char *dtype, *a_bytes, *bytes;
        bool bf16, copies;
    } cases[] = {{"bf16", ", \"forward_bytes\": 64", ", \"forward_bytes\": 4000000", true, true},
                 {"f16", "", "", true, false},
                 {"f32", "", "", false, false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char model[1024];
        snprintf(model, sizeof model,
                 "{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"k\", \"modules\": ["
                 "{\"name\": \"a\", \"forward_ns\": 2000000, \"backward_input_ns\": 2000000, "
                 "\"forward_flops\": 90000000%s}, {\"name\": \"b\", "
                 "\"forward_ns\": 2000000, \"backward_input_ns\": 2000000, \"forward_flops\": 0%s}"
                 "], \"params\": [{\"name\": \"w\", \"numel\": 1000, \"module\": 0, \"dtype\": "
                 "\"%s\"}]}",
                 cases[i].a_bytes, cases[i].bytes, cases[i].dtype);
        fixture_put(fixture_path("k.json"), model);
        const char *out = verified("", "-w k.json --dp 2 --backend nccl --transport loop --steps 2 "
                                       "--warmup 1 --no-db");
        has(out, ", sgemm 128 (");
        assert_true((strstr(out, ", bf16 products of 256 (") != NULL) == cases[i].bf16);
        assert_true((strstr(out, ", copies of 65536 (") != NULL) == cases[i].copies);
    }
}

/* Squares are summed on the device, by processes and by ranks that are streams of one. */
TEST(clipped_plans_end_like_one_rank)
{
    needs_fakes();
    verified("", SHORT "-w w.json --momentum 0.5 --dp 3 --zero 1 --clip 1 --spawn");
    verified("", SHORT "-w w.json --momentum 0.5 --dp 2 --pp 2 --micro-batches 2 --clip 0.5 "
                       "--spawn");
    verified("", SHORT "-w w.json --momentum 0.5 --dp 3 --zero 3 --clip 1 --transport loop");
    verified("", SHORT "-w w.json --momentum 0.5 --dp 2 --clip 1 --grad-dtype bf16 --transport "
                       "loop");
}

/* The fake connects a pair of ranks at their first message, and the call blocks until both have
 * come. Submitted step by step these plans wait in a circle: rank 0 connects to rank 1 for a
 * message of one direction while rank 1 is in a gather of the other. */
TEST(pipelines_connect_before_the_first_step)
{
    needs_fakes();
    static const char *const plans[] = {
        "--pp 2 --dp 2 --micro-batches 8 --schedule dualpipe --zero 3",
        "--pp 4 --micro-batches 8 --schedule dualpipe --zero 3",
        "--pp 4 --micro-batches 8 --schedule dualpipev",
        "--pp 2 --dp 2 --micro-batches 4 --schedule 1f1b --zero 1",
        "--pp 2 --dp 2 --micro-batches 4 --schedule interleaved-1f1b --chunks 2 --zero 2",
        "--pp 4 --micro-batches 4 --schedule zb-h1",
        "--pp 4 --micro-batches 8 --schedule zbv",
        "--pp 2 --dp 2 --micro-batches 4 --schedule gpipe --zero 3 --clip 1",
    };

    for (size_t i = 0; i < 2 * (sizeof plans / sizeof *plans); i++) {
        char args[512]; /* the environment may ask that collectives connect at their first use */
        if (i / 2 % 2 != i % 2 && unit_cases(1, 0))
            continue;
        snprintf(args, sizeof args, SHORT "-w deep.json %s --spawn --timeout 20", plans[i / 2]);
        verified(i % 2 ? "NCCL_RUNTIME_CONNECT=1" : "NCCL_RUNTIME_CONNECT=0", args);
    }
}

/* An embedding of 20 rows of 6, of which a micro-batch touches 5, and a dense parameter. */
TEST(sparse_gradients_end_like_one_rank)
{
    needs_fakes();
    static const char *const runs[] = {
        "--dp 2 --transport loop",
        "--dp 3 --transport loop --micro-batches 3 --no-sync 2",
        "--dp 3 --transport loop --zero 1 --shard-policy oss-greedy",
        "--dp 2 --transport loop --momentum 0.5",
        "--dp 4 --transport loop --grad-dtype bf16",
        "--dp 2 --spawn",
        "--dp 3 --spawn --momentum 0.5 --micro-batches 2",
    };

    for (size_t i = 0; i < 2 * (sizeof runs / sizeof *runs); i++) {
        const char *dtype = i % 2 ? "bf16" : "f32";
        char text[512];
        if (i / 2 % 2 != i % 2 && unit_cases(1, 0))
            continue; /* the two types by turns */
        snprintf(text, sizeof text,
                 "{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"e\",\"modules\":[{\"name\":"
                 "\"e\"}],\"params\":[{\"name\":\"w\",\"numel\":120,\"module\":0,"
                 "\"sparse\":true,\"dtype\":\"%s\"},{\"name\":\"v\",\"numel\":30,"
                 "\"module\":0,\"dtype\":\"%s\"}],"
                 "\"sparse\":[{\"param\":0,\"row_numel\":6,\"touched_rows\":5}]}",
                 dtype, dtype);
        fixture_put(fixture_path("e.json"), text);
        snprintf(text, sizeof text, "-w e.json %s --backend nccl --compute sleep --steps 3 --no-db",
                 runs[i / 2]);
        verified("", text);
    }
}

TEST(refused_start_names_a_launcher)
{
    needs_fakes();
    static const struct {
        const char *words, *expected;
        int status;
    } cases[] = {
        {"$L exec --dp 2 --backend nccl", "--spawn, torchrun, mpirun, srun", 1},
#ifndef __SANITIZE_THREAD__ /* whose processes cannot share memory at one address */
        {"$L exec --dp 2 --backend threads --spawn --compute sleep", "bit by bit", 0},
#endif
        {"$L exec --dp 2 --backend threads --transport loop", "has no loop transport", 1},
        {"$L exec --dp 2 --backend nccl --ranks 4 --spawn", "--ranks 4, but --dp 2", 1},
        {"WORLD_SIZE=4 RANK=0 $L exec --dp 2 --backend nccl",
         "torchrun (RANK, WORLD_SIZE) started 4 processes; the plan has 2 ranks", 1},
        {"WORLD_SIZE=2 RANK=5 $L exec --dp 2 --backend nccl", "RANK=5 of WORLD_SIZE=2", 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        int rc;
        snprintf(words, sizeof words, "%s -w w.json --no-db", cases[i].words);
        has(fake_shell(words, &rc), cases[i].expected);
        assert_int_equal(rc, cases[i].status);
    }
}

TEST(a_spawned_rank_that_is_lost_leaves_a_failed_run_and_no_process)
{
    needs_fakes();
    int rc;
    const char *out = fake_shell("FAKE_NCCL_LOSE=1:3 $L exec -w w.json --dp 3 --backend nccl "
                                 "--spawn --compute sleep --steps 3 --warmup 0 --db lost.db",
                                 &rc);

    assert_int_not_equal(rc, 0);
    has(out, "rank 1 is gone");
    has(out, "first unfinished: op ");
    has(lapwing("runs --db lost.db", NULL), "failed");
}

/* Two processes as each launcher starts them: all GPUs visible to both, one each, by number or
 * UUID, or an instance of MIG each. R: the rank. */
TEST(launchers_and_visible_devices_are_respected)
{
    needs_fakes();
    static const char *const launchers[] = {
        "RANK=$R WORLD_SIZE=2 LOCAL_RANK=$R LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
        "MASTER_PORT=$P",
        "OMPI_COMM_WORLD_RANK=$R OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$R "
        "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=job$P",
        "PMI_RANK=$R PMI_SIZE=2 MPI_LOCALRANKID=$R PMI_ID=$P",
        "SLURM_PROCID=$R SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$R SLURM_JOB_ID=$P "
        "SLURM_STEP_NUM_NODES=1",
    };
    static const struct {
        const char *devices, *expected;
    } cases[] = {
        {"X=", "bit by bit"},
        {"CUDA_VISIBLE_DEVICES=$R", "bit by bit"},
        {"CUDA_VISIBLE_DEVICES=GPU-$R", "bit by bit"},
        {"CUDA_VISIBLE_DEVICES=MIG-a$R", "instances of MIG"}, /* two of one GPU: NCCL has none */
        {"CUDA_VISIBLE_DEVICES=MIG-${R}a", "bit by bit"},
        {"CUDA_VISIBLE_DEVICES=MIG-a", "Duplicate GPU"},
        {"CUDA_VISIBLE_DEVICES=3", "rank 0 of 2 sees 1 GPU; start at most one process per"},
        {"CUDA_VISIBLE_DEVICES=", "CUDA_ERROR_NO_DEVICE"},
    };
    int port = 20000 + (int)(getpid() * 41 % 12000);

    for (size_t i = 0; i < 4 * (sizeof cases / sizeof *cases); i++) {
        const char *launcher = launchers[i % 4], *devices = cases[i / 4].devices;
        char words[1024];
        if (i > 7 && i % 4 != i / 4 % 4)
            continue; /* the rest with one launcher each */
        snprintf(words, sizeof words,
                 "P=%d; for R in 0 1; do env %s %s $L exec " SHORT "-w w.json --dp 2 & done; wait",
                 port + (int)i, launcher, devices);
        const char *out = fake_shell(words, NULL);
        if (!strstr(out, cases[i / 4].expected))
            fail_msg("%s %s: %s", launcher, devices, out);
    }
}

/* Each rank registers the memory that its collectives use, and gives all of it back: the fake
 * refuses to finalize a communicator otherwise, and counts what lives. */
TEST(buffers_are_registered_with_nccl)
{
    needs_fakes();
    const char *out = verified("FAKE_GPU_LOG=$PWD/g FAKE_NCCL_LOG=$PWD/n",
                               SHORT "-w w.json --dp 2 --zero 2 --spawn --nccl-register --nccl-env "
                                     "NCCL_ALGO=Ring --nccl-env NCCL_PROTO=LL");

    has(out, "NCCL_ALGO=Ring");
    has(out, "NCCL_PROTO=LL");
    has(out, "buffers registered\"");
    out = shell("cat g n", NULL);
    has(out, "rank 1 of 2: registers ");
    has(out, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");
}

/* NCCL says "unhandled cuda error" of both. */
TEST(an_error_under_a_registered_buffer_is_named)
{
    static const struct { const char *fail, *words; } cases[] = {
        {"cuMemAlloc:8:2", "has no"},
        {"cuMemAlloc:8:700", "ncclMemAlloc: an illegal memory access"},
    };

    needs_fakes();
    for (int i = 0; i < 2; i++) {
        char words[512];
        int rc;
        snprintf(words, sizeof words,
                 "FAKE_CUDA_FAIL=%s $L exec -w w.json --dp 2 --zero 2 --no-db --backend nccl "
                 "--spawn --nccl-register", cases[i].fail);
        has(fake_shell(words, &rc), cases[i].words);
        assert_int_not_equal(rc, 0);
    }
}

TEST(settings_that_no_library_takes_are_refused)
{
    static const struct {
        const char *args, *expected;
        int rc;
    } cases[] = {
        {"--backend nccl --spawn --nccl-register", "NCCL 2.28.9 has no ncclCommRegister", 1},
        {"--backend nccl --transport loop --nccl-register",
         "--nccl-register: a loop of backend 'nccl'", 1},
        {"--backend threads --nccl-register", "--nccl-register: backend 'threads'", 1},
        {"--backend threads --nccl-env NCCL_ALGO=Ring", "--nccl-env: backend 'threads'", 1},
        {"--backend nccl --nccl-env ALGO=Ring", "--nccl-env ALGO=Ring: expected NCCL_NAME=VALUE",
         2},
        {"--backend nccl --nccl-env NCCL_ALGO", "--nccl-env NCCL_ALGO: expected NCCL_NAME=VALUE",
         2},
    };

    needs_fakes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[512];
        int rc;
        snprintf(words, sizeof words,
                 "LD_LIBRARY_PATH=%s$LD_LIBRARY_PATH $L exec -w w.json --dp 2 --zero 2 --no-db %s",
                 i == 0 ? "$LD_LIBRARY_PATH/old:" : "", cases[i].args);
        has(fake_shell(words, &rc), cases[i].expected);
        assert_int_equal(rc, cases[i].rc);
    }
}

/* Reading k is 1000 + 10 k MHz, 300 + k W, throttled when k is even: three readings and more. */
TEST(clocks_and_power_are_stored_with_the_run)
{
    needs_fakes();
    const char *forty = "-w w.json --dp 2 --backend nccl --spawn --compute sleep --warmup 1 "
                        "--steps 40 --db state.db";
    const char *out = exec_with("", forty);

    has(out, "device of rank 1: SM clock 1");
    has(out, "(least 1010), memory 2000 MHz");
    out = exec_with("", "-w w.json --dp 2 --backend nccl --spawn --compute sleep --warmup 1 "
                        "--steps 40 --no-db --format json");
    has(out, "{\"rank\": 1, \"sm_clock_mean_mhz\": 1");
    has(out, "\"temperature_max_c\": 50.0");
    out = exec_with("FAKE_NVML=none", SHORT "-w w.json --dp 2 --spawn --format json");
    has(out, "\"devices\": []");
    has_not(lapwing("runs --db state.db --format json", NULL), "\"id\": 2");
}

#ifndef __SANITIZE_THREAD__ /* minutes of products */
static const char here_cluster[] =
    "{\"lapwing\": 1, \"kind\": \"cluster\", \"name\": \"c\", \"calibrated\": true,"
    " \"devices_per_node\": 4, \"device\": {\"kind\": \"gpu\", \"copy_bytes_per_s\":"
    " {\"value\": 1e9, \"source\": \"t\"}}, \"links\": [{\"name\": \"l\", \"level\": \"intra\","
    " \"bytes_per_s\": {\"value\": 1e9, \"source\": \"t\"},"
    " \"latency_ns\": {\"value\": 1000, \"source\": \"t\"},"
    " \"n_links\": {\"value\": 1, \"source\": \"t\"}}]}";

static const char here_workload[] =
    "{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"tiny\", \"modules\": ["
    "{\"name\": \"a\", \"forward_ns\": 1000000, \"backward_input_ns\": 2000000}],"
    " \"params\": [{\"name\": \"w\", \"numel\": 1000, \"module\": 0}], \"optimizer_ns\": 100000}";

/* The same grid on the NCCL backend: a world of one, ranks as streams of one device, one process
 * per rank; --only keeps them short. Predictions are of another machine: what is tested is that
 * every way plans, runs, verifies, stores and prints once. */
TEST(a_gpu_runs_the_same_grid)
{
    needs_fakes();
    static const struct {
        const char *words, *expected[2];
    } cases[] = {
        {"", {"flat\", \"family\": \"here\"", "nccl backend, verified bitwise"}},
        {"--transport loop --ranks 3",
         {"flat\", \"family\": \"here, oversubscribed\"", "ranks share one device"}},
        {"--spawn --ranks 3 --db here.db", {"flat\", \"family\": \"here\"", "\"n\": 1,"}},
    };
    int rc;

    fixture_put(fixture_path("c.json"), here_cluster);
    fixture_put(fixture_path("tiny.json"), here_workload);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[512];
        snprintf(words, sizeof words,
                 "$L validate --here --backend nccl %s -c c.json tiny.json --steps 1 "
                 "--only 'zero 1, flat' --format json",
                 cases[i].words);
        const char *out = fake_shell(words, &rc);
        if (rc != 0 && rc != 3 && rc != 4) /* 4: beside other programs */
            fail_msg("%s: exit %d: %s", cases[i].words, rc, out);
        for (int k = 0; k < 2; k++)
            has(out, cases[i].expected[k]);
    }
    const char *out = lapwing("runs --db here.db --format json", NULL);
    has(out, "\"id\": 2");
    has_not(out, "\"id\": 3");
    has(fake_shell("$L validate --here --backend nccl --spawn --ranks 2 -c dgx-a100 tiny.json",
                   &rc),
        "'dgx-a100' is not calibrated");
    assert_int_equal(rc, 1);
}
#endif
