/* What calls launch and wait for, from cuda_sync rows or from their order. */
#include "tests/lib/unit.h"

#include "tests/lib/traces/replay_help.h"
#include "traces/trace/runtime_calls.h"

struct made {
    struct lw_arena arena;
    struct traces_launches launches;
    struct traces_calls calls;
};

static void make(const struct traces_source *s, struct made *m)
{
    *m = (struct made){0};
    assert_int_equal(traces_launches_build(&s->trace, &m->arena, &m->launches, NULL), LW_OK);
    assert_int_equal(traces_calls_build(&s->trace, &m->launches, NULL, &m->arena, &m->calls, NULL),
                     LW_OK);
}

static void made_free(struct made *m, struct traces_source *s)
{
    lw_arena_free(&m->arena);
    traces_source_free(s);
}

static void is_wait(const struct traces_call *c, enum traces_wait_source source, int32_t stream,
                    int32_t on_stream, int64_t upto)
{
    assert_int_equal(c->source, source);
    if (source == TRACES_WAIT_UNKNOWN)
        return;
    assert_int_equal(c->stream, stream);
    assert_int_equal(c->on_stream, on_stream);
    assert_int_equal(c->upto, upto);
}

/* The example of docs/design/runtime_calls.md. */
TEST(order_tells_what_stream_waits_are_for)
{
    struct traces_source s;
    struct made m;

    replay_begin(&s);
    replay_row(&s, LW_ROW_LAUNCH, "cudaLaunchKernel", 0, 1, 0, 1);      /* 0: k1 on 7 */
    replay_row(&s, LW_ROW_HOST, "c10d::allreduce_", 2, 10, 0, -1);
    replay_row(&s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 3, 1, 0, 2);   /* 1 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaLaunchKernelExC", 5, 1, 0, 3);   /* 2: nccl on 20 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 7, 1, 0, 4);   /* 3 */
    replay_row(&s, LW_ROW_LAUNCH, "hipStreamWaitEvent", 20, 1, 0, 5);   /* 4 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaLaunchKernel", 22, 1, 0, 6);     /* 5: k2 on 7 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 24, 1, 0, 7);  /* 6: no collective left */
    replay_row(&s, LW_ROW_LAUNCH, "cudaStreamSynchronize", 26, 1, 0, 8); /* 7 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 28, 1, 0, 9); /* 8 */
    replay_row(&s, LW_ROW_KERNEL, "k1", 1, 5, 7, 1);
    replay_row(&s, LW_ROW_KERNEL, "ncclDevKernel_AllReduce", 7, 5, 20, 3);
    replay_row(&s, LW_ROW_KERNEL, "k2", 23, 5, 7, 6);
    replay_ready(&s);
    make(&s, &m);
    const struct traces_call *c = m.calls.calls;
    assert_int_equal(m.calls.n, 9);
    assert_true(c[2].comm && !c[0].comm);
    is_wait(&c[1], TRACES_WAIT_INFERRED, 20, 7, 0);
    is_wait(&c[3], TRACES_WAIT_UNKNOWN, 0, 0, 0);
    is_wait(&c[4], TRACES_WAIT_INFERRED, 7, 20, 2);
    is_wait(&c[6], TRACES_WAIT_UNKNOWN, 0, 0, 0);
    is_wait(&c[7], TRACES_WAIT_INFERRED, -1, 7, 5);
    is_wait(&c[8], TRACES_WAIT_RECORDED, -1, -1, 8);
    made_free(&m, &s);
}

TEST(the_recorders_own_rows_win_and_unknown_events_stay_unknown)
{
    struct lw_row_detail known = replay_no_detail(), unknown = replay_no_detail();
    struct traces_source s;
    struct made m;

    known.wait_stream = 20, known.wait_record = 2;
    replay_begin(&s);
    replay_row(&s, LW_ROW_LAUNCH, "cudaLaunchKernel", 0, 1, 0, 1);      /* 0 on 20 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaEventRecord", 2, 1, 0, 2);       /* 1 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 4, 1, 0, 3);   /* 2 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaEventSynchronize", 6, 1, 0, 4);  /* 3 */
    replay_row(&s, LW_ROW_LAUNCH, "cudaStreamSynchronize", 8, 1, 0, 5); /* 4 */
    replay_row(&s, LW_ROW_KERNEL, "k", 1, 5, 20, 1);
    replay_row_with(&s, LW_ROW_SYNC, "Stream Wait Event", 4, 1, 28, 3, &known);
    replay_row_with(&s, LW_ROW_SYNC, "Event Sync", 6, 1, -1, 4, &unknown);
    replay_row(&s, LW_ROW_SYNC, "Stream Sync", 8, 1, 20, 5);
    replay_ready(&s);
    make(&s, &m);
    const struct traces_call *c = m.calls.calls;
    assert_int_equal(c[1].kind, TRACES_CALL_RECORD);
    assert_int_equal(c[1].stream, 20);
    is_wait(&c[2], TRACES_WAIT_RECORDED, 28, 20, 1);
    is_wait(&c[3], TRACES_WAIT_UNKNOWN, 0, 0, 0);
    is_wait(&c[4], TRACES_WAIT_RECORDED, -1, 20, 4);
    made_free(&m, &s);
}

TEST(copies_block_by_call_or_by_where_they_go)
{
    static const struct {
        const char *call, *copy;
        enum traces_call_kind kind;
    } want[] = {
        {"cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", TRACES_CALL_COPY},
        {"cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", TRACES_CALL_LAUNCH},
        {"cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", TRACES_CALL_LAUNCH},
        {"hipMemcpyWithStream", "CopyDeviceToHost", TRACES_CALL_COPY},
        {"cudaMemcpy", "Memcpy HtoD (Pinned -> Device)", TRACES_CALL_COPY},
    };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct traces_source s;
        struct made m;
        replay_begin(&s);
        replay_row(&s, LW_ROW_LAUNCH, want[i].call, 0, 1, 0, 1);
        replay_row(&s, LW_ROW_MEM, want[i].copy, 1, 5, 7, 1);
        replay_ready(&s);
        make(&s, &m);
        assert_int_equal(m.calls.calls[0].kind, want[i].kind);
        assert_int_equal(m.calls.calls[0].n_device, 1);
        made_free(&m, &s);
    }
}
