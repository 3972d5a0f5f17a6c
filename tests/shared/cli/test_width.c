/* Outside a terminal no line of text is wider than 100 columns: prose is broken at blanks. The
 * inputs are the widest that the program makes by itself; lines of names of files are left out. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/text/wrap.h"
#include "tests/lib/command_fixture.h"
#include "tests/lib/file_fixture.h"

static int columns(const char *line, size_t n)
{
    int columns = 0;

    for (size_t i = 0; i < n; i++)
        columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    return columns;
}

static void fits(const char *args)
{
    int rc;
    const char *text = lapwing(args, &rc);

    assert_int_equal(rc, 0);
    assert_true(*text);
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (columns(text, n) > LW_TEXT_COLUMNS)
            fail_msg("lapwing %s: %d columns: %.*s", args, columns(text, n), (int)n, text);
        text += n + (text[n] == '\n');
    }
}

TEST_WITH(what_commands_print_fits, fixture_open, fixture_close)
{
    static const char *const commands[] = {
        "help", "help strategy", "help sim", "help plan", "help exec", "help bench", "help plot",
        "help recommend", "help validate", "help calibrate", "help cost", "help cluster",
        "model --list", "cluster", "cluster dgx-h100", "cluster gb200", "doctor", "version",
        "model gpt-175b --device dgx-h100 -o w.json",
    };

    int rc;

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fits(commands[i]);
    lapwing("sim -w w.json -c dgx-h100 --pp 16 --tp 8 --dp 8 --micro-batches 64 --db r.db --name "
            "'a name that is as long as names of runs can be when every option is in it'", &rc);
    assert_int_equal(rc, 0);
    fits("runs --db r.db");
}

TEST(words_are_counted_in_columns)
{
    char text[256] = "";
    FILE *f = tmpfile();

    lw_put_wrapped(f, "a\u00e9 b cc", 0, 4); /* "aé b" has four columns and five bytes */
    lw_put_paragraph(f, "  note: ", "x");
    rewind(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text, "a\u00e9 b\ncc\n  note: x\n");
}
