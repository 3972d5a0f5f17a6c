/* A text that is packed while it is written unpacks to itself. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/io/gzip_out.h"
#include "shared/io/input.h"

enum { MEMBER = 4 << 20 };

static char *make_text(size_t n)
{
    char *text = malloc(n + 1);

    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + (i * i / 7 + i / 1000) % 26);
    return text;
}

/* In writes of `each` bytes. */
static void pack(const char *text, size_t n, size_t each, char **packed, size_t *n_packed)
{
    struct lw_gzip_out out;
    struct lw_err err = {0};

    assert_ok(lw_gzip_out_begin(&out, &err), err);
    for (size_t at = 0; at < n; at += each)
        fwrite(text + at, 1, n - at < each ? n - at : each, out.file);
    assert_ok(lw_gzip_out_end(&out, packed, n_packed, &err), err);
}

/* Empty, one byte around one member and around two, in small writes and in one. */
TEST(a_text_of_any_length_unpacks_to_itself)
{
    static const size_t lengths[] = {0,          1,          MEMBER - 1,     MEMBER,
                                     MEMBER + 1, 2 * MEMBER, 2 * MEMBER + 1, 3 * MEMBER + 12345};

    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i / 2], n_packed = 0;
        char *text = make_text(n), *packed = NULL;
        struct lw_input in;
        struct lw_err err = {0};
        pack(text, n, i % 2 ? 7001 : n + 1, &packed, &n_packed);
        assert_ok(lw_input_unpack("text", packed, n_packed, &in, &err), err);
        assert_int_equal(in.len, n);
        assert_memory_equal(in.text, text, n);
        lw_input_free(&in);
        lw_free(packed);
        free(text);
    }
}

/* Files and databases of small plans stay as they were. */
TEST(a_small_text_is_packed_as_in_one_piece)
{
    char *text = make_text(100000), *packed = NULL, *whole = NULL;
    size_t n_packed = 0, n_whole = 0;
    struct lw_err err = {0};

    pack(text, 100000, 999, &packed, &n_packed);
    assert_ok(lw_gzip_pack(text, 100000, &whole, &n_whole, &err), err);
    assert_int_equal(n_packed, n_whole);
    assert_memory_equal(packed, whole, n_whole);
    lw_free(packed);
    lw_free(whole);
    free(text);
}

TEST(without_memory_nothing_is_left)
{
    char *text = make_text(2 * MEMBER + 1);
    int64_t live = lw_alloc_live();
    enum lw_status s = LW_ENOMEM;

    for (int64_t n = 1; s != LW_OK; n++) {
        struct lw_gzip_out out;
        struct lw_err err = {0};
        char *packed = NULL;
        size_t n_packed = 0;
        lw_alloc_fail_at(n);
        s = lw_gzip_out_begin(&out, &err);
        if (s == LW_OK) {
            fwrite(text, 1, 2 * MEMBER + 1, out.file);
            s = lw_gzip_out_end(&out, &packed, &n_packed, &err);
        }
        lw_alloc_fail_at(0);
        assert_true(s == LW_OK || (s == LW_ENOMEM && !packed));
        lw_free(packed);
        assert_int_equal(lw_alloc_live(), live);
        assert_true(n < 100);
    }
    free(text);
}
