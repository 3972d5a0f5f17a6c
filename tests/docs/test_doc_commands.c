/* Every "lapwing ..." of README.md and the guides is a command line that the program takes: the
 * command, its options and their values. Sessions ("$ lapwing ...") are run by test_guides.c; the
 * others need a GPU, several machines, minutes or files of the user, so they are read with --help
 * at their end, which is met after all options before it. */
#include "tests/lib/unit.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

static int n_read;

/* Up to a comment, a redirection, a pipe or "..."; words of the user stay as they are. */
static void read_command(const char *page, const char *from, size_t n)
{
    char words[600], args[700];
    int rc;

    snprintf(words, sizeof words, "%.*s", (int)n, from);
    for (char *p = words; *p; p++) {
        bool ends = *p == '>' || *p == '|' || *p == ';' || (*p == '#' && p[-1] == ' ') ||
                    strncmp(p, "...", 3) == 0;
        if (ends) {
            *p = '\0';
            break;
        }
        if (*p == '\n' || *p == '\\')
            *p = ' ';
        if (*p == '$') { /* a variable, as of a script */
            memset(p, ' ', 1 + strspn(p + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
            *p = '1';
        }
    }
    size_t name = strcspn(words + 8, " ");
    bool message = name > 0 && words[8 + name - 1] == ':'; /* "lapwing sim: ...": what it prints */
    if (message || strncmp(words, "lapwing help", 12) == 0 || !words[7])
        return;
    snprintf(args, sizeof args, "%s --help", words + 8);
    const char *said = lapwing(args, &rc);
    if (rc != 0)
        fail_msg("%s: '%s': exit %d: %s", page, words, rc, said);
    n_read++;
}

/* In backquotes, maybe over the end of a line; or a line of a block that is no session. */
static void read_page(const char *page)
{
    char *text = fixture_get(page);

    for (const char *at = text; (at = strstr(at, "lapwing ")) != NULL; at += 8) {
        const char *line = at;
        while (line > text && line[-1] != '\n')
            line--;
        bool quoted = at > text && at[-1] == '`';
        bool block = strncmp(line, "    ", 4) == 0 && line[4] != '$' &&
                     (at == line + 4 || strncmp(line + 4, "srun ", 5) == 0);
        if (quoted && strchr(at, '`'))
            read_command(page, at, strcspn(at, "`"));
        else if (block) {
            size_t n = strcspn(at, "\n");
            while (n > 0 && at[n - 1] == '\\' && at[n])
                n += 1 + strcspn(at + n + 1, "\n");
            read_command(page, at, n);
        }
    }
    free(text);
}

TEST_WITH(each_command_of_a_page_is_one_that_the_program_takes, fixture_open, fixture_close)
{
    glob_t g;

    read_page("README.md");
    assert_int_equal(glob("docs/guide/*.md", 0, NULL, &g), 0);
    for (size_t i = 0; i < g.gl_pathc; i++)
        read_page(g.gl_pathv[i]);
    globfree(&g);
    printf("%d commands\n", n_read);
    assert_true(n_read > 30);
}
