/* A script keeps the characters that the fonts have, and no other beyond ASCII. */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/draw/plot_glyphs.h"
#include "shared/base/shown_text.h"
#include "tests/lib/prng.h"

static struct lw_err err;

static FILE *file_of(const char *text)
{
    FILE *f = tmpfile();

    assert_non_null(f);
    fputs(text, f);
    return f;
}

static struct plot_glyphs fonts(const char *list)
{
    struct plot_glyphs g;
    FILE *f = file_of(list);

    assert_int_equal(plot_glyphs_read(f, &g, &err), LW_OK);
    fclose(f);
    return g;
}

static void copy(const struct plot_glyphs *g, const char *text, char *out, size_t size, int64_t *n)
{
    FILE *from = file_of(text), *to = tmpfile();

    assert_non_null(to);
    assert_int_equal(plot_glyphs_copy(g, from, to, n, &err), LW_OK);
    rewind(to);
    out[fread(out, 1, size - 1, to)] = '\0';
    fclose(from);
    fclose(to);
}

TEST(any_font_will_do)
{
    struct plot_glyphs g = fonts(":charset=20-7e e9\n:charset=65e5 2026-2027\n");
    char out[64];
    int64_t n;

    copy(&g, "é 日本…\n", out, sizeof out, &n);
    assert_string_equal(out, "é 日?…\n");
    assert_int_equal(n, 1);
    plot_glyphs_free(&g);
}

TEST(without_a_list_everything_stays)
{
    char out[64];
    int64_t n;

    copy(&(struct plot_glyphs){0}, "日本\n", out, sizeof out, &n);
    assert_string_equal(out, "日本\n");
    assert_int_equal(n, 0);
}

/* Against a table of each code point by itself. */
TEST(each_code_point_by_itself)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct prng r = prng_of(seed);
        char list[4096], text[4096], want[4096], out[4096];
        size_t at = 0, len = 0, wanted = 0;
        uint32_t from[100], to[100];
        int n_ranges = 1 + (int)(prng_next(&r) % 100);
        int64_t n, n_want = 0;

        for (int i = 0; i < n_ranges; i++) {
            from[i] = (uint32_t)(prng_next(&r) % 0x10ff00);
            to[i] = from[i] + (uint32_t)(prng_next(&r) % 3000);
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%x-%x",
                                   i % 7 ? " " : "\n:charset=", from[i], to[i]);
        }
        struct plot_glyphs g = fonts(list);
        for (int i = 0; i < 900; i++) {
            uint32_t code = (uint32_t)(prng_next(&r) % 0x110000);
            int k = (int)(prng_next(&r) % (uint64_t)n_ranges);
            if (i % 2)
                code = from[k] + code % 3 * (to[k] - from[k]) / 2;
            if (code < 0x80 || (code >= 0xd800 && code < 0xe000) || code >= 0x110000)
                code = 'a';
            bool held = code < 0x80;
            for (int j = 0; j < n_ranges; j++)
                held |= code >= from[j] && code <= to[j];
            len += (size_t)lw_utf8_encode(code, text + len);
            if (held)
                wanted += (size_t)lw_utf8_encode(code, want + wanted);
            else
                want[wanted++] = '?';
            n_want += !held;
        }
        text[len] = want[wanted] = '\0';
        copy(&g, text, out, sizeof out, &n);
        if (strcmp(out, want) != 0 || n != n_want)
            fail_msg("seed %d", (int)seed);
        plot_glyphs_free(&g);
    }
}
