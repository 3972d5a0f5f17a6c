/* Saved states as bytes: the documented example, what is refused and how it is said, damage of
 * every kind, files. What a run makes of them is in tests/exec/run/test_exec_state.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <ctype.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "exec/tensors/state.h"
#include "shared/base/input.h"
#include "tests/lib/file_fixture.h"
#include "tests/fuzz/state_target.h"
#include "tests/lib/prng.h"

enum { HEAD = LW_EXEC_STATE_HEAD, SUM = 32 };

/* The example of docs/formats/state.md: five steps of momentum; a.weight is trained, head has its
 * weights, mask is frozen. */
static const struct lw_exec_state_param example_params[] = {
    {.name = "a.weight", .numel = 2, .dtype = LW_BF16, .shares = -1, .n_copies = 1},
    {.name = "head", .numel = 2, .dtype = LW_BF16, .shares = 0},
    {.name = "mask", .numel = 3, .dtype = LW_I64, .shares = -1},
};
static const float example_weights[] = {1.0f, -0.5f}, example_momentum[] = {0.25f, 0.0f};

static struct lw_exec_state example(void)
{
    struct lw_exec_state s = {.optimizer = EXEC_MOMENTUM, .n_tensor = 1, .n_params = 3};
    struct lw_err err = {0};

    if (lw_exec_state_make(&s, example_params, &err) != LW_OK)
        fail_msg("%s", err.msg);
    s.n_steps = 5;
    lw_exec_state_put(&s, &(struct lw_exec_state_range){0, 0, 0, 0, 2}, example_weights);
    lw_exec_state_put(&s, &(struct lw_exec_state_range){0, 0, 1, 0, 2}, example_momentum);
    if (lw_exec_state_seal(&s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* bytes[n] are copied. */
static enum lw_status parse(const void *bytes, size_t n, struct lw_exec_state *s,
                            struct lw_err *err)
{
    unsigned char *own = lw_alloc(n + 1);

    assert_non_null(own);
    memcpy(own, bytes, n);
    *err = (struct lw_err){0};
    return lw_exec_state_parse("a.state", own, (int64_t)n, s, err);
}

static void refused(const void *bytes, size_t n, const char *says)
{
    struct lw_exec_state s;
    struct lw_err err;
    int64_t live = lw_alloc_live();

    if (parse(bytes, n, &s, &err) != LW_EFORMAT || strncmp(err.msg, "a.state: ", 9) != 0 ||
        !strstr(err.msg, says) || strchr(err.msg, '\n'))
        fail_msg("'%s' instead of '%s'", err.msg, says);
    assert_int_equal(lw_alloc_live(), live);
}

static void same_as_example(const struct lw_exec_state *s)
{
    float got[2];

    assert_int_equal(s->n_steps, 5);
    assert_int_equal(s->optimizer, EXEC_MOMENTUM);
    assert_int_equal(s->n_tensor, 1);
    assert_int_equal(s->n_params, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(s->params[i].name, example_params[i].name);
        assert_int_equal(s->params[i].numel, example_params[i].numel);
        assert_int_equal(s->params[i].dtype, example_params[i].dtype);
        assert_int_equal(s->params[i].shares, example_params[i].shares);
        assert_int_equal(s->params[i].n_copies, example_params[i].n_copies);
        assert_int_equal(lw_exec_state_find(s, example_params[i].name), i);
    }
    lw_exec_state_get(s, &(struct lw_exec_state_range){0, 0, 0, 0, 2}, got);
    assert_memory_equal(got, example_weights, sizeof got);
    lw_exec_state_get(s, &(struct lw_exec_state_range){0, 0, 1, 0, 2}, got);
    assert_memory_equal(got, example_momentum, sizeof got);
    assert_int_equal(lw_exec_state_find(s, "head.weight"), -1);
    assert_int_equal(lw_exec_state_find(s, ""), -1);
}

/* The lines "00000010: 6c77 ..." of the page, as xxd prints them. */
static size_t documented(unsigned char *bytes)
{
    char *text = fixture_get("docs/formats/state.md"), *line = strstr(text, "\n00000000: ");
    size_t n = 0;

    assert_non_null(line);
    while (line[9] == ':') {
        for (const char *c = line + 11; c < line + 50; c += c[2] == ' ' ? 3 : 2) {
            unsigned byte;
            if (!isxdigit((unsigned char)*c) || sscanf(c, "%2x", &byte) != 1)
                break;
            bytes[n++] = (unsigned char)byte;
        }
        line = strchr(line + 1, '\n');
        assert_non_null(line);
    }
    free(text);
    return n;
}

static void the_documented_example_is_what_is_written(void **state)
{
    unsigned char bytes[1024];
    size_t n = documented(bytes);
    struct lw_exec_state s = example(), read;
    struct lw_err err;

    (void)state;
    assert_int_equal(n, HEAD + 48 + 28 + 28 + SUM);
    assert_int_equal(s.n_bytes, n);
    assert_memory_equal(s.bytes, bytes, n);
    if (parse(bytes, n, &read, &err) != LW_OK)
        fail_msg("%s", err.msg);
    same_as_example(&read);
    assert_string_equal(read.hash, s.hash);
    lw_exec_state_free(&s);
    lw_exec_state_free(&read);
}

/* Pieces of two tensor ranks, two copies each, of 3 arrays: all 12 runs lie apart. */
static void every_piece_has_its_place(void **state)
{
    const struct lw_exec_state_param p[] = {
        {.name = "x", .numel = 5, .dtype = LW_F32, .shares = -1, .n_copies = 2},
        {.name = "y", .numel = 0, .dtype = LW_F32, .shares = -1, .n_copies = 1}};
    struct lw_exec_state s = {.optimizer = EXEC_ADAM, .n_tensor = 2, .n_params = 2};
    float value = 0, got[5];

    (void)state;
    assert_int_equal(lw_exec_state_make(&s, p, NULL), LW_OK);
    assert_int_equal(s.n_bytes, HEAD + 28 + 2 * 2 * 3 * 5 * 4 + 28 + SUM);
    for (int32_t piece = 0; piece < 4; piece++)
        for (int32_t k = 0; k < 3; k++)
            for (int64_t e = 0; e < 5; e++, value += 1)
                lw_exec_state_put(&s, &(struct lw_exec_state_range){0, piece, k, e, 1}, &value);
    assert_int_equal(lw_exec_state_seal(&s, NULL), LW_OK);
    value = 0;
    for (int32_t piece = 0; piece < 4; piece++)
        for (int32_t k = 0; k < 3; k++) {
            lw_exec_state_get(&s, &(struct lw_exec_state_range){0, piece, k, 0, 5}, got);
            for (int e = 0; e < 5; e++, value += 1)
                assert_true(got[e] == value);
        }
    lw_exec_state_free(&s);
}

static void cut_or_grown_files_are_named(void **state)
{
    struct lw_exec_state s = example();
    unsigned char longer[256];

    (void)state;
    for (int64_t n = 0; n < s.n_bytes; n++)
        refused(s.bytes, (size_t)n, n < 8 ? "is no saved state" : "is cut short");
    memcpy(longer, s.bytes, (size_t)s.n_bytes);
    longer[s.n_bytes] = 0;
    refused(longer, (size_t)s.n_bytes + 1, "is longer than it was: it has 185 bytes and says 184");
    lw_exec_state_free(&s);
}

static void a_flipped_bit_is_damage(void **state)
{
    struct lw_exec_state s = example();

    (void)state;
    for (int64_t i = 0; i < s.n_bytes * 8; i++) {
        s.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        refused(s.bytes, (size_t)s.n_bytes,
                i < 64                ? "is no saved state"
                : i < 96              ? "is a state of version"
                : i >= 128 && i < 192 ? " and says "
                                      : "is damaged");
        s.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    lw_exec_state_free(&s);
}

/* With a checksum that fits: what a foreign writer may have done. */
static void wrong_contents_are_named(void **state)
{
    static const struct {
        int at, n;
        unsigned char bytes[8];
        const char *says;
    } cases[] = {
        {12, 1, {9}, "byte 12: 9 parameters in 184 bytes"},
        {12, 1, {4}, "byte 152: parameter 3: does not fit before byte 152"},
        {12, 1, {2}, "byte 124: 28 bytes behind the last parameter"},
        {24, 4, {255, 255, 255, 127}, "byte 24: 2147483647 steps (at most 2147483646)"},
        {32, 4, {'l', 'a', 'm', 'b'}, "byte 32: optimizer 'lambntum' (sgd, momentum, adam)"},
        {39, 1, {0}, "byte 32: optimizer 'momentu'"},
        {40, 1, {0}, "byte 40: 0 tensor ranks"},
        {41, 1, {128}, "byte 40: 32769 tensor ranks"},
        {48,
         8,
         {255, 255, 255, 255, 255, 255, 255, 127},
         "'a.weight' of 9223372036854775807 elements, 1 times, in 72 bytes"},
        {55, 1, {128}, "parameter 0: number of elements -9223372036854775806"},
        {48, 1, {10}, "byte 80: parameter 0 'a.weight' of 10 elements, 1 times, in 72 bytes"},
        {56, 2, {'f', '8'}, "byte 56: parameter 0: type 'f816'"},
        {60, 4, {255, 255, 255, 255}, "parameter 0: copies -1"},
        {60, 4, {255, 255, 255, 127}, "2147483647 times"},
        {64, 4, {0, 0, 0, 0}, "parameter 0: shares the values of parameter 0"},
        {64, 4, {254, 255, 255, 255}, "parameter 0: shares the values of parameter -2"},
        {68, 1, {0}, "parameter 0: a name of this many bytes: 0"},
        {69, 1, {16}, "a name of this many bytes: 4104"},
        {68, 1, {7}, "no zeros behind its name of this many bytes: 7"},
        {73, 1, {27}, "byte 48: parameter 0: its name holds the control character 27"},
        {80, 4, {0, 0, 128, 127}, "byte 80: parameter 'a.weight': infinite, or no number"},
        {92, 4, {1, 0, 128, 255}, "byte 92: parameter 'a.weight': infinite, or no number"},
        {96, 1, {3}, "parameter 1: shares the values of parameter 0"}, /* which has 2 elements */
        {112, 1, {1}, "parameter 1: shares the values of parameter 1"},
        {148, 4, {'h', 'e', 'a', 'd'}, "parameters 1 and 2 have one name, 'head'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_exec_state s = example();
        memcpy(s.bytes + cases[i].at, cases[i].bytes, (size_t)cases[i].n);
        put_right(s.bytes, (size_t)s.n_bytes);
        refused(s.bytes, (size_t)s.n_bytes, cases[i].says);
        lw_exec_state_free(&s);
    }
}

/* Whatever the bytes: it is refused in words, or read and could be made again. */
static void random_damage_is_never_more_than_a_refusal(void **state)
{
    struct lw_exec_state s = example();
    struct prng r = prng_start("random_damage_is_never_more_than_a_refusal");
    unsigned char bytes[256];
    int64_t live = lw_alloc_live();
    int n_read = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct lw_exec_state got;
        struct lw_err err;
        size_t n =
            (size_t)prng_in(&r, 0, 3) ? (size_t)s.n_bytes : (size_t)prng_in(&r, 0, s.n_bytes);
        memcpy(bytes, s.bytes, n);
        for (int64_t k = prng_in(&r, 1, 4); n > 0 && k > 0; k--)
            bytes[prng_in(&r, 0, (int64_t)n - 1)] = (unsigned char)prng_next(&r);
        put_right(bytes, n);
        if (parse(bytes, n, &got, &err) == LW_OK) {
            make_again(&got);
            lw_exec_state_free(&got);
            n_read++;
        } else if (err.code != LW_EFORMAT || strncmp(err.msg, "a.state: ", 9) != 0) {
            fail_msg("round %d: %s", round, err.msg);
        }
    }
    assert_int_equal(lw_alloc_live(), live);
    assert_true(n_read > 100 && n_read < 19000);
    lw_exec_state_free(&s);
}

static void what_cannot_be_read_is_not_made(void **state)
{
    static const struct {
        struct lw_exec_state_param p[2];
        const char *says;
    } cases[] = {
        {{{"x", 1, LW_F32, -1, 1, 0}, {"x", 1, LW_F32, -1, 1, 0}},
         "parameters 0 and 1 have one name, 'x'"},
        {{{"x", 1, LW_F32, -1, 1, 0}, {"", 1, LW_F32, -1, 1, 0}}, "a name of this many bytes: 0"},
        {{{"x\ny", 1, LW_F32, -1, 1, 0}, {"y", 1, LW_F32, -1, 1, 0}}, "control character 10"},
        {{{"x", 1, LW_F32, -1, 1, 0}, {"y", 2, LW_F32, 0, 0, 0}},
         "shares the values of parameter 0"},
    };
    struct lw_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_exec_state s = {.n_tensor = 1, .n_params = 2};
        assert_int_equal(lw_exec_state_make(&s, cases[i].p, &err), LW_EINVAL);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("%s", err.msg);
        assert_null(s.bytes);
    }
    struct lw_exec_state huge = {.n_tensor = 1, .n_params = 1};
    const struct lw_exec_state_param p = {"x", INT64_MAX / 2, LW_F32, -1, 1, 0};
    assert_int_equal(lw_exec_state_make(&huge, &p, &err), LW_ENOMEM);
}

static void values_beyond_numbers_are_not_sealed(void **state)
{
    struct lw_exec_state s = example();
    const float infinite = (float)1e300;
    struct lw_err err;

    (void)state;
    lw_exec_state_put(&s, &(struct lw_exec_state_range){0, 0, 1, 1, 1}, &infinite);
    assert_int_equal(lw_exec_state_seal(&s, &err), LW_EFAILED);
    assert_string_equal(err.msg,
                        "the state of this run: byte 92: parameter 'a.weight': infinite, or no "
                        "number");
    lw_exec_state_free(&s);
}

static void failing_allocations_leave_nothing_behind(void **state)
{
    struct lw_exec_state s = example();
    int64_t live = lw_alloc_live(), n = 0;
    enum lw_status status = LW_ENOMEM;

    (void)state;
    while (status == LW_ENOMEM) {
        struct lw_exec_state read;
        unsigned char *bytes = lw_alloc((size_t)s.n_bytes);
        memcpy(bytes, s.bytes, (size_t)s.n_bytes);
        lw_alloc_fail_at(++n);
        status = lw_exec_state_parse("a.state", bytes, s.n_bytes, &read, NULL);
        lw_alloc_fail_at(0);
        if (status == LW_OK)
            lw_exec_state_free(&read);
        assert_int_equal(lw_alloc_live(), live);
    }
    assert_int_equal(status, LW_OK);
    assert_int_equal(n, 3); /* the index, the list of names */
    lw_exec_state_free(&s);
}

/* --- files ------------------------------------------------------------------------------------ */

static void a_file_comes_back(void **state)
{
    const char *file = fixture_path("whole.state");
    struct lw_exec_state s = example(), read;
    struct lw_err err;

    (void)state;
    assert_int_equal(lw_exec_state_can_write(file, &err), LW_OK);
    assert_int_not_equal(access(file, F_OK), 0);
    assert_int_equal(lw_exec_state_write(&s, file, &err), LW_OK);
    if (lw_exec_state_read(file, &read, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(read.file, file);
    same_as_example(&read);
    lw_exec_state_free(&read);
    lw_exec_state_free(&s);
}

static void expect_unread(const char *file, enum lw_status code, const char *says)
{
    struct lw_exec_state s;
    struct lw_err err;

    assert_int_equal(lw_exec_state_read(file, &s, &err), code);
    if (strncmp(err.msg, file, strlen(file)) != 0 || !strstr(err.msg, says))
        fail_msg("%s", err.msg);
}

static void other_files_are_refused_by_name(void **state)
{
    struct lw_exec_state s = example();
    struct lw_err err;

    (void)state;
    expect_unread(fixture_path("absent"), LW_EIO, "cannot open: No such file or directory");
    expect_unread("/dev/zero", LW_EIO, "is no regular file");
    expect_unread("/tmp", LW_EIO, "is no regular file");
    fixture_put(fixture_path("text"), "{\"lapwing\": 1}\n");
    expect_unread(fixture_path("text"), LW_EFORMAT, "is no saved state");
    fixture_put(fixture_path("empty"), "");
    expect_unread(fixture_path("empty"), LW_EFORMAT, "is no saved state");
    fixture_put(fixture_path("short"), "lwstate\n and then nothing more of what was there");
    expect_unread(fixture_path("short"), LW_EFORMAT, "is cut short: 48 bytes");
    assert_int_equal(lw_exec_state_can_write("/nowhere/x", &err), LW_EIO);
    assert_int_equal(lw_exec_state_write(&s, "/nowhere/x", &err), LW_EIO);
    assert_string_equal(err.msg, "/nowhere/x: cannot write: No such file or directory");
    lw_exec_state_free(&s);
}

static void every_fuzz_corpus_file_is_read_or_refused(void **state)
{
    static const char corpus[] = "tests/fuzz/corpus/state";
    DIR *dir = opendir(corpus);
    int n = 0;

    (void)state;
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char path[512];
        struct lw_input in;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", corpus, e->d_name);
        assert_int_equal(lw_input_read(path, 0, &in, NULL), LW_OK);
        uint8_t *copy = malloc(in.len + 1);
        size_t len = in.len;
        memcpy(copy, in.text, len);
        lw_input_free(&in);
        assert_int_equal(LLVMFuzzerTestOneInput(copy, len), 0);
        free(copy);
        n++;
    }
    closedir(dir);
    assert_true(n >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_example_is_what_is_written),
        cmocka_unit_test(every_piece_has_its_place),
        cmocka_unit_test(cut_or_grown_files_are_named),
        cmocka_unit_test(a_flipped_bit_is_damage),
        cmocka_unit_test(wrong_contents_are_named),
        cmocka_unit_test(random_damage_is_never_more_than_a_refusal),
        cmocka_unit_test(what_cannot_be_read_is_not_made),
        cmocka_unit_test(values_beyond_numbers_are_not_sealed),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
        cmocka_unit_test(a_file_comes_back),
        cmocka_unit_test(other_files_are_refused_by_name),
        cmocka_unit_test(every_fuzz_corpus_file_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
