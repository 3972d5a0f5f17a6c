/* The folder of a test: made, written, read, listed and removed. */
#include "tests/lib/files/file_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"

static char folder[64];

int fixture_open(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lapwing-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return 0;
}

/* lw_output's temporary names end in six letters or digits, drawn by mkstemp. */
static bool is_temporary(const char *name)
{
    size_t n = strlen(name);

    if (n <= 7 || name[n - 7] != '.')
        return false;
    for (size_t i = n - 6; i < n; i++)
        if (!isalnum((unsigned char)name[i]))
            return false;
    return true;
}

int fixture_close(void **state)
{
    DIR *d = opendir(folder);
    char left[256] = "", command[128];

    (void)state;
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (is_temporary(e->d_name))
            snprintf(left, sizeof left, "%s", e->d_name);
    }
    closedir(d);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    assert_string_equal(left, "");
    return 0;
}

const char *fixture_path(const char *name)
{
    static char paths[4][400];
    static int turn;
    char *p = paths[turn++ % 4];

    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

void fixture_put(const char *path, const char *text)
{
    assert_int_equal(path[0], '/'); /* nothing into the tree */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

char *fixture_get(const char *path)
{
    FILE *f = fopen(path, "r");

    if (!f)
        fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, n, f), n);
    text[n] = 0;
    fclose(f);
    return text;
}

char *fixture_written(const char *path)
{
    char *text = fixture_get(path), *hash = strstr(text, ",\n  \"content_hash\": \"");

    if (!hash)
        fail_msg("%s has no content_hash", path);
    strcpy(hash, "\n}\n");
    return text;
}

char *fixture_example(const char *markdown)
{
    char *text = fixture_get(markdown), *from = strstr(text, "```json\n");

    if (!from)
        fail_msg("%s holds no block of JSON", markdown);
    from += strlen("```json\n");
    char *end = strstr(from, "```");
    assert_non_null(end);
    memmove(text, from, (size_t)(end - from));
    text[end - from] = 0;
    return text;
}

int fixture_corpus(const char *corpus, int (*target)(const uint8_t *data, size_t size))
{
    DIR *d = opendir(corpus);
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[512];
        struct lw_input in;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", corpus, e->d_name);
        assert_int_equal(lw_input_read(path, 0, &in, NULL), LW_OK);
        size_t size = in.len;
        uint8_t *copy = malloc(size + 1);
        assert_non_null(copy);
        memcpy(copy, in.text, size);
        lw_input_free(&in);
        assert_int_equal(target(copy, size), 0);
        free(copy);
        n++;
    }
    closedir(d);
    return n;
}

char *fixture_replaced(const char *text, const char *from, const char *to)
{
    const char *p = strstr(text, from);

    if (!p)
        fail_msg("the text holds no %s", from);
    char *out = malloc(strlen(text) + strlen(to) + 1);
    assert_non_null(out);
    sprintf(out, "%.*s%s%s", (int)(p - text), text, to, p + strlen(from));
    return out;
}
