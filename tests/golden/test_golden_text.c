/* What commands print, as it was committed: each tests/golden/NAME.cmd is a shell's words with
 * $L the program and $G this folder, NAME.expected what they write. LAPWING_GOLDEN=update (`make
 * golden-update`) writes the files anew. */
#include "tests/lib/unit.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

enum { ROOM = 1 << 16 };

static void read_file(const char *path, char *text)
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, ROOM - 1, f) : 0;

    if (!f || n == ROOM - 1)
        fail_msg("%s: %s", path, f ? "too long" : "cannot be read");
    text[n] = '\0';
    fclose(f);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* The number of the first line that differs. */
static int first_difference(const char *a, const char *b)
{
    int line = 1;

    for (; *a && *a == *b; a++, b++)
        line += *a == '\n';
    return line;
}

static void check(const char *cmd_path, bool update)
{
    static char words[ROOM], line[ROOM + 64], expected[ROOM];
    char path[256];

    snprintf(path, sizeof path, "%.*s.expected", (int)(strlen(cmd_path) - 4), cmd_path);
    read_file(cmd_path, words);
    snprintf(line, sizeof line, "G=$P/tests/golden\n%s", words);
    const char *got = shell(line, NULL);
    if (update)
        write_file(path, got);
    read_file(path, expected);
    if (strcmp(got, expected) != 0)
        fail_msg("%s differs from what '%s' prints from line %d on; if it is meant to, run "
                 "'make golden-update'", path, cmd_path, first_difference(got, expected));
}

TEST(commands_print_what_was_committed)
{
    const char *how = getenv("LAPWING_GOLDEN");
    glob_t found;

    assert_int_equal(glob("tests/golden/*.cmd", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i], how && strcmp(how, "update") == 0);
    globfree(&found);
}

TEST_GROUP(fixture_open, fixture_close)
