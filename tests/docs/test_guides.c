/* The commands of README.md and the guides are run, and print what the pages show.
 *
 * In README.md and docs/guide/NAME.md an indented block whose first line begins with "$ " is a
 * session: each such line is a command, the lines after it are what it prints. A command ends with
 * a backslash where it goes on in the next line, and one with "<<'END'" goes on to the line END. In
 * what is shown, "..." at the end of a line stands for the rest of that line, and a line "..."
 * alone for any lines. Commands of one guide share a folder, in the order of the page.
 * LAPWING_GOLDEN=update writes what the commands print, except after "...": such a command keeps
 * its text. */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

enum { MAX_LINES = 2000, LINE = 512 };

struct page {
    int n;
    char line[MAX_LINES][LINE];
};

static void read_page(const char *path, struct page *p)
{
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    p->n = 0;
    while (p->n < MAX_LINES && fgets(p->line[p->n], LINE, f)) {
        p->line[p->n][strcspn(p->line[p->n], "\n")] = '\0';
        p->n++;
    }
    assert_true(feof(f));
    fclose(f);
}

static bool indented(const char *line)
{
    return strncmp(line, "    ", 4) == 0 && line[4];
}

static bool is_command(const char *line)
{
    return strncmp(line, "    $ ", 6) == 0;
}

/* The line of a page against a line that was printed. */
static bool alike(const char *shown, const char *printed, size_t n)
{
    size_t k = strlen(shown);

    if (k >= 3 && strcmp(shown + k - 3, "...") == 0)
        return n >= k - 3 && memcmp(shown, printed, k - 3) == 0;
    return k == n && memcmp(shown, printed, n) == 0;
}

/* Do shown[n] and the text agree? A line "..." takes as few lines as the next one allows. */
static bool agree(char (*shown)[LINE], int n, const char *text)
{
    bool any = false;

    for (int i = 0; i < n;) {
        size_t len = strcspn(text, "\n");
        while (len > 0 && text[len - 1] == ' ')
            len--;
        if (strcmp(shown[i] + 4, "...") == 0) {
            any = true;
            i++;
        } else if (!*text) {
            return false;
        } else {
            bool same = alike(shown[i] + (indented(shown[i]) ? 4 : 0), text, len);
            if (!same && !any)
                return false;
            i += same;
            any &= !same;
            text += strcspn(text, "\n");
            text += *text == '\n';
        }
    }
    return any || text[strspn(text, " \n")] == '\0';
}

static bool ends_in_dots(const char *line)
{
    size_t k = strlen(line);

    return k >= 3 && strcmp(line + k - 3, "...") == 0;
}

static bool has_dots(char (*shown)[LINE], int n)
{
    for (int i = 0; i < n; i++)
        if (ends_in_dots(shown[i]))
            return true;
    return false;
}

/* A line of the page, without blanks at its end; the text after it. */
static const char *put_line(FILE *to, const char *text)
{
    size_t len = strcspn(text, "\n"), kept = len;

    while (kept > 0 && text[kept - 1] == ' ')
        kept--;
    fprintf(to, kept > 0 ? "    %.*s\n" : "%.*s\n", (int)kept, text);
    return text + len + (text[len] == '\n');
}

/* Blank lines at the end belong to the page. */
static void put_shown(FILE *to, const char *text)
{
    while (text[strspn(text, " \n")])
        text = put_line(to, text);
}

static const char *line_of(const char *text, int k)
{
    for (; k > 0; k--) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return text;
}

/* As a line shown that ends in dots and agrees with it, or itself. */
static void put_as_shown(FILE *to, char (*shown)[LINE], int n, const char *line)
{
    size_t len = strcspn(line, "\n");

    for (int i = 0; i < n; i++)
        if (ends_in_dots(shown[i]) && strcmp(shown[i], "    ...") != 0 &&
            alike(shown[i] + 4, line, len)) {
            fprintf(to, "%s\n", shown[i]);
            return;
        }
    put_line(to, line);
}

/* Lines before the first "..." are the first of the text, those after the last its last ones; what
 * ends in dots stays, and so does what lies between two of them. A line of the text stands once. */
static void put_dotted(FILE *to, char (*shown)[LINE], int n, const char *text)
{
    int first = n, last = -1, n_text = 0;

    for (const char *t = text; t[strspn(t, " \n")]; t = line_of(t, 1))
        n_text++;
    for (int i = n - 1; i >= 0; i--)
        if (strcmp(shown[i], "    ...") == 0) {
            first = i;
            last = last < 0 ? i : last;
        }
    for (int i = 0; i < n; i++) {
        int k = i < first ? i : n_text - (n - i);
        bool between = i >= first && i <= last;
        if (!between && (k >= n_text || (i > last && k < first && first < n)))
            continue; /* no such line is printed any more, or it stands above */
        if (between)
            fprintf(to, "%s\n", shown[i]);
        else
            put_as_shown(to, shown, n, line_of(text, k));
    }
    for (int k = n; first == n && k < n_text; k++)
        put_as_shown(to, shown, n, line_of(text, k));
}

/* The lines of a command with "<<'END'", up to END. */
static void take_here_text(const struct page *p, int *at, char words[4 * LINE], size_t n)
{
    bool more = strstr(words, "<<'END'") != NULL;

    while (more && *at < p->n) {
        const char *line = indented(p->line[*at]) ? p->line[*at] + 4 : p->line[*at];
        n += (size_t)snprintf(words + n, 4 * LINE - n, "\n%s", line);
        assert_true(n < 4 * LINE);
        more = strcmp(line, "END") != 0;
        ++*at;
    }
}

/* The command that begins at *at; *at goes to the first line that it prints. */
static void take_command(const struct page *p, int *at, char words[4 * LINE])
{
    size_t n = (size_t)snprintf(words, 4 * LINE, "export PATH=$(dirname $L):$PATH "
                                "PYTHONPATH=$P/analysis/library "
                                "LAPWING_LIBRARY=$(dirname $L)/liblapwing.so; %s",
                                p->line[(*at)++] + 6);

    while (n > 0 && words[n - 1] == '\\' && *at < p->n) {
        words[n - 1] = ' ';
        n += (size_t)snprintf(words + n, 4 * LINE - n, "%s", p->line[(*at)++] + 4);
        assert_true(n < 4 * LINE);
    }
    take_here_text(p, at, words, n);
}

/* Lines of the output: up to the next command, or to the end of the block. A blank line belongs
 * to it where the block goes on. */
static int end_of_output(const struct page *p, int at)
{
    int end = at;

    while (at < p->n && (indented(p->line[at]) || !p->line[at][0]) && !is_command(p->line[at])) {
        at++;
        if (indented(p->line[at - 1]))
            end = at;
    }
    return end;
}

static int run_page(const char *name)
{
    static struct page p;
    char path[256], to_path[300];
    const char *mode = getenv("LAPWING_GOLDEN");
    bool update = mode && strcmp(mode, "update") == 0;
    int n_commands = 0;

    bool guide = strcmp(name, "README") != 0;
    snprintf(path, sizeof path, guide ? "docs/guide/%s.md" : "%s.md", name);
    snprintf(to_path, sizeof to_path, "%s.new", path);
    read_page(path, &p);
    FILE *to = update ? fopen(to_path, "w") : NULL;
    for (int at = 0; at < p.n;) {
        int first = at, rc;
        char words[4 * LINE];
        if (!is_command(p.line[at])) {
            if (to)
                fprintf(to, "%s\n", p.line[at]);
            at++;
            continue;
        }
        take_command(&p, &at, words);
        int end = end_of_output(&p, at);
        const char *text = shell(words, &rc);
        n_commands++;
        if (!update && !agree(p.line + at, end - at, text))
            fail_msg("%s:%d: %s\nprints (exit %d):\n%s", path, first + 1, p.line[first], rc, text);
        for (int i = first; to && i < at; i++)
            fprintf(to, "%s\n", p.line[i]);
        if (to && has_dots(p.line + at, end - at))
            put_dotted(to, p.line + at, end - at, text);
        else if (to)
            put_shown(to, text);
        at = end;
    }
    if (to) {
        assert_int_equal(fclose(to), 0);
        assert_int_equal(rename(to_path, path), 0);
    }
    return n_commands;
}

#define GUIDE(name)                                                          \
    TEST_WITH(name##_shows_what_is_printed, fixture_open, fixture_close)     \
    {                                                                        \
        assert_true(run_page(#name) > 0);                                    \
    }

GUIDE(predict)
GUIDE(replay)
GUIDE(compare)
GUIDE(validate)
GUIDE(peers)
GUIDE(tune)

/* The folder of the recordings is in the reader's. */
TEST_WITH(readme_shows_what_is_printed, fixture_open, fixture_close)
{
    shell("ln -s $P/traces traces", NULL);
    assert_true(run_page("README") >= 4);
}

/* An interpreter without the sanitizer cannot load a library that has it. */
TEST_WITH(library_shows_what_is_printed, fixture_open, fixture_close)
{
    int rc;

#ifdef __SANITIZE_ADDRESS__
    print_message("SKIP the guide of the library: it has sanitizers\n");
    skip();
#endif
    shell("python3 -c 'import ctypes, sqlite3'", &rc);
    if (rc != 0) {
        print_message("SKIP the guide of the library: no python3\n");
        skip();
    }
    assert_true(run_page("library") > 0);
}

TEST(wildcards_stand_for_what_they_say)
{
    static char shown[4][LINE];

    strcpy(shown[0], "    a ...");
    strcpy(shown[1], "    ...");
    strcpy(shown[2], "    z");
    assert_true(agree(shown, 3, "a b\nc\nd\nz\n"));
    assert_true(agree(shown, 3, "a b\nz\n"));
    assert_false(agree(shown, 3, "a b\nc\n"));
    assert_false(agree(shown, 3, "b\nz\n"));
    assert_false(agree(shown, 1, "a b\nc\n"));
    assert_true(agree(shown, 2, "a b\nc\n"));
    strcpy(shown[3], "    b");
    assert_false(agree(shown + 3, 1, "bb\n"));
}

/* Output that has become shorter than its excerpt leaves no line of before, and no line twice. */
TEST(an_excerpt_of_less_has_every_line_once)
{
    static const struct {
        const char *shown[5], *text, *page;
    } cases[] = {
        {{"a", "took ...", "z"}, "a\nz\n", "    a\n    z\n"},
        {{"a", "took ...", "b", "z"}, "a\ntook 7 s\nz\n", "    a\n    took ...\n    z\n"},
        {{"a", "took ..."}, "a\nb\ntook 7 s\n", "    a\n    b\n    took ...\n"},
        {{"a ...", "b"}, "a 1\nb\nc\n", "    a ...\n    b\n    c\n"},
        {{"a", "...", "y", "z"}, "a\nz\n", "    a\n    ...\n    z\n"},
        {{"a", "b", "...", "z"}, "a\nb\n", "    a\n    b\n    ...\n"},
        {{"a", "b", "...", "z"}, "a\n", "    a\n    ...\n"},
    };

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        static char shown[5][LINE];
        char *page = NULL;
        size_t size;
        int n = 0;
        FILE *to = open_memstream(&page, &size);
        assert_non_null(to);
        for (; n < 5 && cases[c].shown[n]; n++)
            snprintf(shown[n], LINE, "    %s", cases[c].shown[n]);
        put_dotted(to, shown, n, cases[c].text);
        assert_int_equal(fclose(to), 0);
        assert_string_equal(page, cases[c].page);
        free(page);
    }
}

/* What changed is printed anew; what ends in dots, and dots alone, stay as they are. */
TEST(an_excerpt_is_printed_again_around_its_dots)
{
    static char shown[4][LINE];
    char *page = NULL;
    size_t size;
    FILE *to = open_memstream(&page, &size);

    assert_non_null(to);
    strcpy(shown[0], "    a 1");
    strcpy(shown[1], "    took ...");
    strcpy(shown[2], "    ...");
    strcpy(shown[3], "    z 1");
    put_dotted(to, shown, 4, "a 2\ntook 7 s\nmore\nand more\nz 2\n\n");
    put_dotted(to, shown, 2, "a 3\ntook 8 s\n");
    assert_int_equal(fclose(to), 0);
    assert_string_equal(page, "    a 2\n    took ...\n    ...\n    z 2\n"
                              "    a 3\n    took ...\n");
    free(page);
}
