/* UTF-8 by the table of RFC 3629, and what of it is shown. */
#include "tests/lib/unit.h"

#include "shared/base/err.h"
#include "shared/base/shown_text.h"

TEST(valid_sequences_are_code_points)
{
    static const struct {
        const char *bytes;
        uint32_t code;
    } cases[] = {{"A", 'A'}, {"\x7f", 0x7f}, {"\xc2\x80", 0x80}, {"\xdf\xbf", 0x7ff},
                 {"\xe0\xa0\x80", 0x800}, {"\xed\x9f\xbf", 0xd7ff}, {"\xee\x80\x80", 0xe000},
                 {"\xef\xbf\xbf", 0xffff}, {"\xf0\x90\x80\x80", 0x10000},
                 {"\xf4\x8f\xbf\xbf", 0x10ffff}};
    char out[5] = "";

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *s = cases[i].bytes;
        assert_int_equal(lw_utf8_next(&s), cases[i].code);
        assert_int_equal(*s, 0);
        out[lw_utf8_encode(cases[i].code, out)] = '\0';
        assert_string_equal(out, cases[i].bytes);
    }
}

TEST(an_invalid_byte_counts_as_one_replacement)
{
    /* lone continuation, overlong, surrogate, above U+10FFFF, cut, not a first byte */
    static const char *const cases[] = {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf",
                                        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
                                        "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xff", "\xc3("};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *s = cases[i];
        assert_int_equal(lw_utf8_next(&s), LW_UTF8_REPLACEMENT);
        assert_ptr_equal(s, cases[i] + 1);
    }
}

TEST(control_characters_are_not_shown)
{
    char buf[32];

    assert_string_equal(lw_shown_text(buf, sizeof buf, "a\033[2Jb\a"), "a?[2Jb?");
    assert_string_equal(lw_shown_text(buf, sizeof buf, "a\nb\tc\r"), "a b c ");
    assert_string_equal(lw_shown_text(buf, sizeof buf, "\xc2\x9b\x7f\xe2\x80\xae"), "???");
    assert_string_equal(lw_shown_text(buf, sizeof buf, "\xc3\xa9\xff"), "\xc3\xa9\xef\xbf\xbd");
    assert_string_equal(lw_shown_text(buf, 3, "a\xc3\xa9"), "a"); /* not half a character */
    assert_string_equal(lw_shown_text(buf, 4, "a\xc3\xa9"), "a\xc3\xa9");
    assert_string_equal(lw_shown_text(buf, 1, "a"), "");
}

TEST(messages_hold_only_what_is_shown)
{
    struct lw_err err;

    lw_fail(&err, LW_EINVAL, "'%s'", "x\033[31m\n");
    assert_string_equal(err.msg, "'x?[31m '");
    lw_fail_at(&err, LW_EFORMAT, "a\ab", 3, "%s", "\xff");
    assert_string_equal(err.msg, "a?b:3: \xef\xbf\xbd");
    lw_err_context(&err, LW_EFORMAT, "%s", "\033");
    assert_string_equal(err.msg, "?: a?b:3: \xef\xbf\xbd");
}

TEST(a_file_is_called_without_folders_and_endings)
{
    static const char *const cases[][2] = {{"/a/resnet_v1.9.json.gz", "resnet_v1.9"},
                                           {"b/gpt6__cap5.rank12.json.gz", "gpt6__cap5"},
                                           {"torch1.9", "torch1.9"},
                                           {"a.rankx", "a.rankx"},
                                           {"a.rank", "a.rank"},
                                           {"bloom.csv", "bloom"},
                                           {".json", ".json"},
                                           {"", ""}};
    char buf[32];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(lw_file_stem(buf, sizeof buf, cases[i][0]), cases[i][1]);
    assert_string_equal(lw_file_stem(buf, 4, "abcdef.json"), "abc");
}
