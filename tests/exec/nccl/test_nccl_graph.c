/* A step as one CUDA graph, against the fake driver, whose captures fail as CUDA's do; and that the
 * fake is that strict. Nothing here says that it works, or how fast, on a GPU. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/fake_gpu.h"
#include "tests/lib/files/file_fixture.h"

/* `lapwing exec` of a small model with these words before and after. */
static const char *run(const char *environment, const char *words, int *rc)
{
    char line[1024];

    snprintf(line, sizeof line,
             "$L model mlp --layers 16 --width 32 -o w.json >/dev/null; env LD_LIBRARY_PATH=%s "
             "FAKE_GPU_COUNT=4 FAKE_GPU_LOG=$PWD/log %s $L exec -w w.json --backend nccl --no-db "
             "--timeout 20 --format json %s; rc=$?; cat log; rm -f log; exit $rc",
             getenv("LAPWING_FAKE_GPU"), environment, words);
    return shell(line, rc);
}

/* Every bucket reduced in a graph, every message and gather, ranks as processes and as streams, by
 * the clock and by products; weights, and the optimizer's state, are those of one rank. */
TEST(steps_as_graphs_end_like_one_rank)
{
    static const char *const cases[][2] = {
        {"FAKE_GPU_DELAY_US=100", "--dp 2 --transport loop --compute sleep"},
        {"FAKE_GPU_DELAY_US=50", "--pp 2 --micro-batches 4 --transport loop --compute spin"},
        {"A=", "--dp 2 --zero 1 --clip 1 --transport loop --compute gemm"},
        {"FAKE_NCCL_DELAY_US=500", "--dp 3 --zero 3 --spawn --compute sleep --momentum 0.5"},
        {"FAKE_GPU_DELAY_US=50", "--dp 2 --zero 2 --no-sync 2 --spawn --compute sleep"},
        {"A=", "--pp 2 --dp 2 --micro-batches 8 --schedule dualpipe --zero 3 --spawn "
               "--compute sleep"},
        {"A=", "--pp 4 --micro-batches 4 --schedule zb-h1 --spawn --compute sleep"},
        {"A=", "--tp 2 --spawn --compute sleep --nccl-register"},
    };

    needs_fakes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        int rc;
        snprintf(words, sizeof words, "%s --steps 3 --warmup 3 --graph", cases[i][1]);
        const char *out = run(cases[i][0], words, &rc);
        if (rc != 0)
            fail_msg("%s: %s", words, out);
        has(out, "\"verified\": true");
        assert_null(strstr(out, "\"submit_ns\": null"));
        assert_null(strstr(out, "\"graph_submit_ns\": null"));
        has(out, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");
    }
}

/* Calls that are captured are recorded without events, which would be of the graph. */
TEST(a_recorder_lets_captures_be)
{
    int rc;

    needs_fakes();
    const char *out = run("LD_PRELOAD=$LAPWING_ASAN:$(dirname $L)/lapwing-record.so "
                          "LAPWING_RECORD=$PWD/calls LAPWING_RECORD_EVENTS=1",
                          "--dp 2 --spawn --compute sleep --steps 2 --warmup 3 --graph", &rc);
    if (rc != 0)
        fail_msg("%s", out);
    has(out, "\"verified\": true");
    out = shell("cat calls*; rm -f calls*", NULL);
    has(out, "all_reduce");
}

/* One warm-up step leads in the graphs: with one there is none that is submitted op by op. */
TEST(both_ways_of_submitting_are_measured)
{
    int rc;
    const char *plan = "--dp 2 --transport loop --compute sleep --steps 2";
    char words[256];

    needs_fakes();
    snprintf(words, sizeof words, "%s --warmup 1 --graph --no-verify", plan);
    const char *out = run("A=", words, &rc);
    assert_int_equal(rc, 0);
    has(out, "\"submit_ns\": null");
    assert_true(number_after(out, "\"graph_submit_ns\": ") > 0);
    snprintf(words, sizeof words, "%s --warmup 1", plan);
    out = run("A=", words, &rc);
    assert_int_equal(rc, 0);
    assert_true(number_after(out, "\"submit_ns\": ") > 0);
    has(out, "\"graph_submit_ns\": null");
}

TEST(a_rank_that_fails_in_a_graph_stops_all)
{
    static const char *const cases[][2] = {
        {"FAKE_NCCL_LOSE=1:14", "rank 1 is gone"},
        {"FAKE_NCCL_ERROR=1:14:6", "remote process exited or there was a network error"},
        {"FAKE_NCCL_HANG=1:14", "not done after 3 s (--timeout)"},
    };

    needs_fakes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc;
        const char *out = run(cases[i][0], "--dp 2 --spawn --compute sleep --steps 8 --warmup 0 "
                                           "--bucket-cap 4KiB --graph --no-verify --timeout 3",
                              &rc);
        assert_int_not_equal(rc, 0);
        has(out, cases[i][1]);
        has(out, "step ");
    }
}

TEST(ops_outside_a_graph_are_refused)
{
    static const char *const cases[][2] = {
        {"--backend threads --dp 2 --graph", "--graph: backend 'threads' submits nothing to a GPU"},
        {"--dp 2 --transport loop --graph --fault 0:3:2:hang",
         "--graph with --fault: an op that waits for the host cannot be part of a graph"},
    };
    int rc;

    needs_fakes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        has(run("A=", cases[i][0], &rc), cases[i][1]);
        assert_int_equal(rc, i == 0 ? 1 : 2);
    }
}

/* --- the fake itself ------------------------------------------------------------------------ */

enum { /* cuda.h */
    UNSUPPORTED = 900,
    INVALIDATED = 901,
    UNJOINED = 904,
    ISOLATION = 905,
    CAPTURED_EVENT = 907,
    THREAD_LOCAL = 1,
};

struct fake {
    int (*init)(unsigned int flags);
    int (*retain)(void **context, int device);
    int (*use)(void *context);
    int (*stream_create)(void **stream, unsigned int flags, int priority);
    int (*event_create)(void **event, unsigned int flags);
    int (*event_destroy)(void *event);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*graph_destroy)(void *graph);
    int (*alloc)(void **memory, size_t bytes);
    int (*stream_query)(void *stream);
    int (*record)(void *event, void *stream);
    int (*wait)(void *stream, void *event, unsigned int flags);
    int (*event_query)(void *event);
    void *stream[2], *event[2];
};

static const struct {
    const char *name;
    size_t at;
} functions[] = {
    {"cuInit", offsetof(struct fake, init)},
    {"cuDevicePrimaryCtxRetain", offsetof(struct fake, retain)},
    {"cuCtxSetCurrent", offsetof(struct fake, use)},
    {"cuStreamCreateWithPriority", offsetof(struct fake, stream_create)},
    {"cuEventCreate", offsetof(struct fake, event_create)},
    {"cuEventDestroy_v2", offsetof(struct fake, event_destroy)},
    {"cuStreamBeginCapture_v2", offsetof(struct fake, begin)},
    {"cuStreamEndCapture", offsetof(struct fake, end)},
    {"cuGraphDestroy", offsetof(struct fake, graph_destroy)},
    {"cuMemAlloc_v2", offsetof(struct fake, alloc)},
    {"cuStreamQuery", offsetof(struct fake, stream_query)},
    {"cuEventRecord", offsetof(struct fake, record)},
    {"cuStreamWaitEvent", offsetof(struct fake, wait)},
    {"cuEventQuery", offsetof(struct fake, event_query)},
};

static void open_fake(struct fake *f)
{
    char path[4096];
    void *context;

    snprintf(path, sizeof path, "%s/libcuda.so", getenv("LAPWING_FAKE_GPU"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *p = dlsym(library, functions[i].name);
        assert_non_null(p);
        memcpy((char *)f + functions[i].at, &p, sizeof p);
    }
    assert_int_equal(f->init(0), 0);
    assert_int_equal(f->retain(&context, 0), 0);
    assert_int_equal(f->use(context), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f->stream_create(&f->stream[i], 1, 0), 0);
        assert_int_equal(f->event_create(&f->event[i], 2), 0);
    }
}

static void begin(const struct fake *f)
{
    assert_int_equal(f->begin(f->stream[0], THREAD_LOCAL), 0);
}

static int end(const struct fake *f)
{
    void *graph = NULL;
    int r = f->end(f->stream[0], &graph);

    if (graph)
        f->graph_destroy(graph);
    return r;
}

/* Stream 0 captures, and stream 1 joins it. */
static void fork_capture(const struct fake *f)
{
    begin(f);
    assert_int_equal(f->record(f->event[0], f->stream[0]), 0);
    assert_int_equal(f->wait(f->stream[1], f->event[0], 0), 0);
}

TEST(the_fake_refuses_in_a_capture_what_cuda_does)
{
    struct fake f = {0};
    void *memory;

    needs_fakes();
    open_fake(&f);
    begin(&f);
    assert_int_equal(f.alloc(&memory, 64), UNSUPPORTED);
    assert_int_equal(end(&f), INVALIDATED);
    begin(&f);
    assert_int_equal(f.stream_query(f.stream[1]), UNSUPPORTED);
    assert_int_equal(end(&f), INVALIDATED);
    begin(&f); /* recorded outside */
    assert_int_equal(f.record(f.event[1], f.stream[1]), 0);
    assert_int_equal(f.wait(f.stream[0], f.event[1], 0), ISOLATION);
    assert_int_equal(end(&f), INVALIDATED);
    fork_capture(&f); /* what stream 1 does is not joined */
    assert_int_equal(f.record(f.event[1], f.stream[1]), 0);
    assert_int_equal(end(&f), UNJOINED);
    fork_capture(&f); /* joined; the event is of the capture for ever */
    assert_int_equal(f.record(f.event[1], f.stream[1]), 0);
    assert_int_equal(f.wait(f.stream[0], f.event[1], 0), 0);
    assert_int_equal(end(&f), 0);
    assert_int_equal(f.event_query(f.event[1]), CAPTURED_EVENT);
    assert_int_equal(f.wait(f.stream[0], f.event[1], 0), CAPTURED_EVENT);
    for (int i = 0; i < 2; i++)
        assert_int_equal(f.event_destroy(f.event[i]), 0);
}

TEST_GROUP(fixture_open, fixture_close)
