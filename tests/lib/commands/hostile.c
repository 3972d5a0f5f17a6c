/* Runs the program beside a file that must not appear, and reads what it wrote byte by byte, as
 * strict JSON, or as nested HTML. */
#include "tests/lib/commands/hostile.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/base/shown_text.h"
#include "shared/json/json.h"
#include "shared/json/value.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

void hostile_bytes(const char *text, const char *whence)
{
    for (const char *s = text; *s;) {
        const char *at = s;
        uint32_t c = lw_utf8_next(&s);
        bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
        if (control || (c == LW_UTF8_REPLACEMENT && s == at + 1))
            fail_msg("%s: byte 0x%02x at %ld leaves", whence, (unsigned char)*at,
                     (long)(at - text));
    }
}

void hostile_json(const char *text, const char *whence)
{
    struct lw_arena arena = {0};
    struct lw_json *j = NULL;
    struct lw_value v;
    struct lw_err err = {0};
    size_t n = strlen(text);
    char *padded = calloc(n + LW_JSON_PADDING, 1);

    memcpy(padded, text, n);
    enum lw_status st = lw_json_open(whence, padded, n, &j, &err);
    if (st == LW_OK)
        st = lw_value_read(j, &arena, &v, &err);
    if (st == LW_OK)
        st = lw_json_done(j, &err);
    if (st != LW_OK)
        fail_msg("%s: not strict JSON: %s\n%.400s", whence, err.msg, text);
    lw_json_close(j);
    lw_arena_free(&arena);
    free(padded);
}

static bool is_void(const char *name, size_t n)
{
    return (n == 4 && strncmp(name, "meta", 4) == 0) ||
           (n == 2 && strncmp(name, "br", 2) == 0) || (n == 5 && strncmp(name, "input", 5) == 0);
}

/* Every element closed in order, and none that this program does not write. */
void hostile_html(const char *text)
{
    static const char known[] =
        " !DOCTYPE html head meta title style body h1 h2 h3 p table tr th td "
        "code div svg text g rect line span i ul li details summary footer "
        "br label input section script ";
    const char *script = strstr(text, "<script>");
    char open[64][16], word[20];
    int depth = 0;

    assert_non_null(script); /* the page's own, and no other */
    assert_null(strstr(script + 1, "<script"));
    for (const char *s = text; (s = strchr(s, '<')) != NULL; s++) {
        bool closes = s[1] == '/';
        const char *name = s + 1 + closes, *end = strchr(s, '>');
        size_t n = strcspn(name, " >/\n");
        assert_non_null(end);
        if (strncmp(s, "<!-- content_hash ", 18) == 0 && strcmp(end, ">\n") == 0)
            break; /* the end of the file */
        snprintf(word, sizeof word, " %.*s ", (int)(n < 16 ? n : 16), name);
        if (!strstr(known, word))
            fail_msg("HTML holds <%.30s", name);
        if (closes) {
            assert_true(depth > 0);
            assert_true(strncmp(open[--depth], name, n) == 0 && open[depth][n] == '\0');
        } else if (name[0] != '!' && !is_void(name, n) && end[-1] != '/') {
            assert_true(depth < 64);
            snprintf(open[depth++], sizeof open[0], "%.*s", (int)n, name);
        }
    }
    assert_int_equal(depth, 0);
}

static bool was_executed(void)
{
    FILE *f = fopen(fixture_path("pwned"), "r");

    if (f)
        fclose(f);
    return f != NULL;
}

int hostile_run(const char *args)
{
    int rc;
    const char *out = lapwing(args, &rc);
    char *copy = strdup(out), *stdout_only = strdup(out);

    stdout_only[shell_err() - out] = '\0';
    if (rc < 0 || rc > 3)
        fail_msg("lapwing %s: exit %d:\n%s", args, rc, copy);
    hostile_bytes(copy, args);
    if (strstr(args, "--format json"))
        hostile_json(stdout_only, args);
    if (strstr(args, "--format json") && rc != 0 && rc != 3 &&
        !(strstr(stdout_only, "\"status\": \"failed\"") && strstr(stdout_only, "\"error\": \"")))
        fail_msg("lapwing %s: exit %d without status and error:\n%s", args, rc, stdout_only);
    if (was_executed())
        fail_msg("lapwing %s: executed a text", args);
    free(copy);
    free(stdout_only);
    return rc;
}

void hostile_run_each(const char *const *args)
{
    for (; *args; args++)
        hostile_run(*args);
}
