/* Dumps of the Flight Recorder (three ranks over gloo, recorded with torch 2.11, as JSON and as
 * pickles) and logs of NCCL: what they hold, where ranks disagree, what is refused. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "traces/collectives/coll_log.h"
#include "traces/collectives/pickle.h"

#define HERE "tests/traces/collectives/"

static struct coll_log read_dump(const char *file)
{
    struct lw_input in;
    struct coll_log l;
    struct lw_err err = {0};

    assert_int_equal(lw_input_read(file, 0, &in, &err), LW_OK);
    assert_true(coll_log_is_recorder(&in));
    if (coll_log_read_recorder(&in, &l, &err) != LW_OK)
        fail_msg("%s", err.msg);
    lw_input_free(&in);
    return l;
}

static void is_recorded(const struct coll_log *l, int rank)
{
    const struct coll_source *s = &l->sources[0];

    assert_int_equal(l->n, 1);
    assert_int_equal(s->rank, rank);
    assert_int_equal(s->n, rank < 2 ? 6 : 5); /* rank 2 is not in the second group */
    assert_string_equal(s->calls[0].op, "gloo:all_reduce");
    assert_string_equal(s->calls[0].group, "0 (default_pg)");
    assert_string_equal(s->calls[0].dtype, "Float");
    assert_int_equal(s->calls[0].numel, 1024);
    assert_int_equal(s->calls[0].seq, 1);
    assert_true(s->calls[0].done);
    assert_string_equal(s->calls[3].op, "gloo:all_gather");
    if (rank < 2)
        assert_string_equal(s->calls[4].group, "1 (pair)");
}

TEST(a_dump_is_the_same_as_json_and_as_pickle)
{
    static const struct {
        const char *file;
        int rank;
    } dumps[] = {{HERE "recorded_0.json", 0}, {HERE "recorded_1.json", 1},
                 {HERE "recorded_2.json", 2}, {HERE "recorded_0.pickle", 0},
                 {HERE "recorded_2.pickle", 2}};

    for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++) {
        struct coll_log l = read_dump(dumps[i].file);
        is_recorded(&l, dumps[i].rank);
        coll_log_free(&l);
    }
}

TEST_WITH(ranks_that_disagree_are_named, fixture_open, fixture_close)
{
    char *text = fixture_get(HERE "recorded_1.json");
    char *other = fixture_replaced(text, "gloo:all_gather", "gloo:all_reduce");
    char *smaller = fixture_replaced(text, "[[1024]]", "[[512]]");
    char *cut = fixture_replaced(text, "\"collective_seq_id\":5", "\"collective_seq_id\":4");

    shell("mkdir d && cp $P/" HERE "recorded_0.json $P/" HERE "recorded_2.pickle d", NULL);
    fixture_put(fixture_path("other_1.json"), other);
    fixture_put(fixture_path("smaller_1.json"), smaller);
    fixture_put(fixture_path("cut_1.json"), cut);
    expect("inspect d", 0, "6 collectives of 2 groups: all ranks agree");
    expect("inspect d other_1.json", 0, "operation");
    expect("inspect d other_1.json", 0, "rank 1");
    expect("inspect d smaller_1.json", 0, "size");
    expect("inspect d cut_1.json", 0, "never came to it");
    expect("inspect --format json d other_1.json", 0, "\"differs_in\": \"operation\"");
    expect("import other_1.json -o w.json", 1, "'lapwing inspect' lists its collectives");
    expect("sim --replay other_1.json --no-db", 1, "and not when a step's ops ran");
    free(text);
    free(other);
    free(smaller);
    free(cut);
}

/* ---- pickles ---- */

static enum lw_status as_json(const char *pickle, size_t len, char *json, size_t size,
                              struct lw_err *err)
{
    struct lw_arena arena = {0};
    char *text;
    size_t text_len;
    enum lw_status status = pickle_to_json("p", pickle, len, &arena, &text, &text_len, err);

    if (status == LW_OK)
        snprintf(json, size, "%.*s", (int)text_len, text);
    lw_arena_free(&arena);
    return status;
}

#define PICKLE(bytes) bytes, sizeof(bytes) - 1

/* torch 2.2 dumps the entries alone, 2.3 without names of groups; both number calls by seq_id. */
TEST(dumps_of_older_torch_are_read)
{
    static const char *const texts[] = {
        "[{\"seq_id\": 7, \"pg_id\": 3, \"profiling_name\": \"nccl:all_reduce\","
        " \"input_sizes\": [[4, 8]], \"state\": \"completed\"}]",
        "{\"version\": \"1.1\", \"entries\": [{\"seq_id\": 7, \"pg_id\": 3,"
        " \"profiling_name\": \"nccl:all_reduce\", \"input_sizes\": [[4, 8]],"
        " \"state\": \"completed\"}]}"};

    for (int i = 0; i < 2; i++) {
        char text[512] = "";
        snprintf(text, sizeof text - LW_JSON_PADDING, "%s", texts[i]);
        struct lw_input in = {.name = "dump_5", .text = text, .len = strlen(text)};
        struct coll_log l;
        struct lw_err err = {0};
        assert_true(coll_log_is_recorder(&in));
        assert_ok(coll_log_read_recorder(&in, &l, &err), err);
        const struct coll_call *c = l.sources[0].calls;
        assert_int_equal(l.sources[0].rank, 5);
        assert_int_equal(l.sources[0].n, 1);
        assert_string_equal(c->group, "3");
        assert_string_equal(c->op, "nccl:all_reduce");
        assert_int_equal(c->seq, 7);
        assert_int_equal(c->numel, 32);
        assert_true(c->done);
        coll_log_free(&l);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(plain_pickles_become_json)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *json;
    } cases[] = {
        {PICKLE("\x80\x02N."), "null"},
        {PICKLE("\x80\x02](K\x01M\x02\x01J\xff\xff\xff\xff\x88\x89" "e."),
         "[1,258,-1,true,false]"},
        {PICKLE("\x80\x02}X\x01\0\0\0aK\x05s."), "{\"a\":5}"},
        {PICKLE("\x80\x04}\x94(\x8c\x01" "a\x94]\x94K\x01" "a\x8c\x01" "b\x8a\x02\xff\x7fu."),
         "{\"a\":[1],\"b\":32767}"},
        {PICKLE("\x80\x02K\x01K\x02\x86q\0h\0\x86."), NULL}, /* two values at the end */
        {PICKLE("\x80\x02(]q\0h\0t."), "[[],[]]"},
        {PICKLE("\x80\x02X\x02\0\0\0\"\n."), "\"\\\"\\u000a\""},
        {PICKLE("\x80\x02G?\xe0\0\0\0\0\0\0."), "0.5"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[256];
        struct lw_err err = {0};
        enum lw_status status = as_json(cases[i].bytes, cases[i].len, json, sizeof json, &err);
        if (!cases[i].json)
            continue;
        if (status != LW_OK || strcmp(json, cases[i].json) != 0)
            fail_msg("case %zu: %s%s", i, status == LW_OK ? json : "", err.msg);
    }
}

TEST(pickles_that_would_call_code_are_refused)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *says;
    } cases[] = {
        {PICKLE("\x80\x02" "cos\nsystem\nX\x02\0\0\0ls\x85R."), "byte 2"},
        {PICKLE("\x80\x02" "cos\nsystem\n."), "would call code"},
        {PICKLE("\x80\x04\x93."), "would call code"},
        {PICKLE("\x80\x02N\x82."), "would call code"},
        {PICKLE("\x80\x02]R."), "operation 0x52 would call code"},
        {PICKLE("\x80\x02\x01."), "unknown pickle operation 0x01"},
        {PICKLE("\x80\x02X\xff\xff\xff\xff" "a."), "ends early"},
        {PICKLE("\x80\x02K"), "ends early"},
        {PICKLE("\x80\x02" "e."), "nothing to put"},
        {PICKLE("\x80\x02]q\0(h\0h\0e."), "holds itself"},
        {PICKLE("\x80\x02h\x05."), "was not remembered"},
        {PICKLE("\x80\x02}K\x01K\x02s."), "keys are not texts"},
        {PICKLE("\x80\x02\x8a\x09\1\2\3\4\5\6\7\x08\x09."), "more than 64 bits"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[256];
        struct lw_err err = {0};
        assert_int_equal(as_json(cases[i].bytes, cases[i].len, json, sizeof json, &err),
                         LW_EFORMAT);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' is not in: %s", cases[i].says, err.msg);
    }
}

/* Each list holds the one before it eight times: 8^20 values in 200 bytes. */
TEST(a_pickle_that_refers_to_itself_exponentially_often_is_refused)
{
    char bytes[512] = "\x80\x02]q", json[64];
    size_t n = 4;
    struct lw_err err = {0};

    bytes[n++] = 0;
    for (char k = 1; k <= 20; k++) {
        bytes[n++] = ']';
        bytes[n++] = '(';
        for (int i = 0; i < 8; i++) {
            bytes[n++] = 'h';
            bytes[n++] = (char)(k - 1);
        }
        bytes[n++] = 'e';
        bytes[n++] = 'q';
        bytes[n++] = k;
    }
    bytes[n++] = '\x87';
    bytes[n++] = '.';
    assert_int_equal(as_json(bytes, n, json, sizeof json, &err), LW_EFORMAT);
}

TEST(damaged_dumps_are_read_or_refused_and_leak_nothing)
{
    static const char *const files[] = {HERE "recorded_0.pickle", HERE "recorded_0.json"};
    uint32_t random = 1;

    for (size_t k = 0; k < 2; k++) {
        struct lw_input in;
        assert_int_equal(lw_input_read(files[k], 0, &in, NULL), LW_OK);
        for (int i = 0; i < 1500; i++) {
            size_t len = i % 3 == 0 ? in.len * (size_t)i / 1500 : in.len;
            char *copy = calloc(len + LW_JSON_PADDING, 1);
            struct lw_input bad = {.name = "x", .text = copy, .len = len};
            struct coll_log l;
            struct lw_err err = {0};
            memcpy(copy, in.text, len);
            for (int n = 0; i % 3 && n < 3; n++) {
                random = random * 1664525u + 1013904223u;
                copy[random % len] = (char)(random >> 24);
            }
            if (coll_log_read_recorder(&bad, &l, &err) == LW_OK)
                coll_log_free(&l);
            free(copy);
        }
        lw_input_free(&in);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(failing_allocations_leak_nothing)
{
    struct lw_input in;
    struct coll_log l = {.n = 77};

    assert_int_equal(lw_input_read(HERE "recorded_0.pickle", 0, &in, NULL), LW_OK);
    for (int64_t n = 1, before = lw_alloc_live();; n++) {
        lw_alloc_fail_at(n);
        enum lw_status status = coll_log_read_recorder(&in, &l, NULL);
        lw_alloc_fail_at(0);
        if (status == LW_OK)
            break;
        assert_int_equal(lw_alloc_live(), before);
        assert_int_equal(l.n, 77);
    }
    coll_log_free(&l);
    lw_input_free(&in);
}

/* ---- NCCL's log ---- */

#define CALL(pid, op, number, count, type, comm)                                              \
    "host:" pid ":7 [0] NCCL INFO " op ": opCount " number " sendbuff 0x1 recvbuff 0x2 count " \
    count " datatype " type " op 0 root 0 comm " comm " [nranks=2] stream 0x9\n"
#define INIT(pid, comm, rank)                                                        \
    "host:" pid ":7 [0] NCCL INFO ncclCommInitRank comm " comm " rank " rank         \
    " nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0xfeed - Init COMPLETE\n"

TEST_WITH(a_log_of_nccl_is_read_by_process, fixture_open, fixture_close)
{
    static const char text[] =
        "noise\n" INIT("10", "0xa0", "0") INIT("20", "0xb0", "1")
        CALL("10", "AllReduce", "0", "1024", "7", "0xa0")
        CALL("20", "AllReduce", "0", "1024", "7", "0xb0")
        CALL("10", "Broadcast", "1", "8", "9", "0xa0")
        CALL("20", "AllReduce", "1", "8", "9", "0xb0");
    struct lw_input in = {.name = "n.log", .text = (char *)text, .len = sizeof text - 1};
    struct coll_log l;
    struct lw_err err = {0};

    assert_true(coll_log_is_nccl(&in));
    assert_int_equal(coll_log_read_nccl(&in, &l, &err), LW_OK);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.sources[1].name, "host:20");
    assert_int_equal(l.sources[1].rank, 1);
    assert_int_equal(l.sources[1].n, 2);
    assert_string_equal(l.sources[1].calls[0].dtype, "f32");
    assert_string_equal(l.sources[1].calls[0].group, "0xfeed");
    assert_int_equal(l.sources[1].calls[1].seq, 1);
    coll_log_free(&l);
    fixture_put(fixture_path("n.log"), text);
    expect("inspect n.log", 0, "1 mismatch between ranks");
    expect("inspect n.log", 0, "Broadcast bf16[8]");
    expect("inspect --format json n.log", 0, "\"differs_in\": \"operation\"");
}

TEST(a_count_beyond_64_bits_is_not_known)
{
    static const char text[] = CALL("10", "AllReduce", "0", "99999999999999999999", "7", "0xa0");
    struct lw_input in = {.name = "n.log", .text = (char *)text, .len = sizeof text - 1};
    struct coll_log l;
    struct lw_err err = {0};

    assert_int_equal(coll_log_read_nccl(&in, &l, &err), LW_OK);
    assert_int_equal(l.sources[0].calls[0].numel, -1);
    coll_log_free(&l);
}
