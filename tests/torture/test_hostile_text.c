/* Texts that others wrote, in every field that takes any, through every command that shows it:
 * nothing is executed, no control byte and no invalid UTF-8 leaves, JSON stays strict and HTML
 * stays nested. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"
#include <sqlite3.h>

#include "shared/json/json.h"
#include "shared/base/shown_text.h"
#include "shared/json/value.h"
#include "shared/plan/strategy.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/text_fields.h"

/* As they stand in a JSON string. `touch` makes the file that nobody may make. */
static const char *const payloads[] = {
    "`touch pwned`",
    "$(touch pwned); touch pwned",
    "';system('touch pwned');'",
    "\\\"; system(\\\"touch pwned\\\"); #\\\"",
    "' . `touch pwned` . '",
    "a\\nEOD\\nsystem('touch pwned')\\n!touch pwned\\n",
    "\\\\\\\"`touch pwned`",
    "@touch %s%n%100000d {/Times x}",
    "<script>alert('x')</script>&<img src=x onerror=\\\"y\\\">",
    "'); DROP TABLE run; --",
    "\\u001b[2J\\u001b]0;title\\u0007\\u0008\\u007f\\u009b31m",
    "\\u202egnp.\\u2028x\\ud83d\\ude00\\u00e9",
    "a\xff\xc3(\xed\xa0\x80z", /* not UTF-8 */
};
enum { N_PAYLOADS = sizeof payloads / sizeof payloads[0] };

/* --- what leaves ------------------------------------------------------------------------------ */

static void check_bytes(const char *text, const char *whence)
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

static void check_json(const char *text, const char *whence)
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
static void check_html(const char *text)
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

static int run(const char *args)
{
    int rc;
    const char *out = lapwing(args, &rc);
    char *copy = strdup(out), *stdout_only = strdup(out);

    stdout_only[shell_err() - out] = '\0';
    if (rc < 0 || rc > 3)
        fail_msg("lapwing %s: exit %d:\n%s", args, rc, copy);
    check_bytes(copy, args);
    if (strstr(args, "--format json"))
        check_json(stdout_only, args);
    if (strstr(args, "--format json") && rc != 0 && rc != 3 &&
        !(strstr(stdout_only, "\"status\": \"failed\"") && strstr(stdout_only, "\"error\": \"")))
        fail_msg("lapwing %s: exit %d without status and error:\n%s", args, rc, stdout_only);
    if (was_executed())
        fail_msg("lapwing %s: executed a text", args);
    free(copy);
    free(stdout_only);
    return rc;
}

static void run_each(const char *const *args)
{
    for (; *args; args++)
        run(*args);
}

/* --- fields of files -------------------------------------------------------------------------- */

/* The n-th string of a JSON text that is a value; NULL: there are fewer. *len without quotes. */
static const char *nth_value(const char *text, int n, size_t *len)
{
    for (const char *s = text; (s = strchr(s, '"')) != NULL;) {
        const char *from = ++s;
        while (*s != '"')
            s += *s == '\\' ? 2 : 1;
        *len = (size_t)(s++ - from);
        if (s[strspn(s, " \n")] != ':' && n-- == 0)
            return from;
    }
    return NULL;
}

static char *with_value(const char *text, int n, const char *value)
{
    size_t len, room = strlen(text) + strlen(value) + 1;
    const char *at = nth_value(text, n, &len);
    char *out = malloc(room);

    snprintf(out, room, "%.*s%s%s", (int)(at - text), text, value, at + len);
    return out;
}

/* The example of a format with every text field that its table has and the command takes. All that
 * are plain texts are taken. */
static char *with_each_field(const char *page, const struct lw_field *table, const char *file,
                             const char *command)
{
    const struct lw_field *f;
    char *now = fixture_example(page), *tried;

    for (int k = 0; (tried = text_with_missing_field(now, table, k, &f)) != NULL;) {
        fixture_put(fixture_path(file), tried);
        bool taken = run(command) == 0;
        if (!taken && f->kind == LW_FIELD_STRING)
            fail_msg("%s: '%s' is in no example and cannot be added:\n%s", page, f->name, tried);
        k += !taken;
        free(taken ? now : tried);
        now = taken ? tried : now;
    }
    fixture_put(fixture_path(file), now);
    return now;
}

/* A text in which field i takes payload first + i, where `command` still reads it. Fields that name
 * one of a few things, or another field, keep theirs. */
static void put_payloads(const char *text, const char *file, int first, const char *command)
{
    char *now = strdup(text);
    size_t len;

    for (int i = 0; nth_value(now, i, &len); i++) {
        char *tried = with_value(now, i, payloads[(first + i) % N_PAYLOADS]);
        fixture_put(fixture_path(file), tried);
        if (run(command) == 0) {
            free(now);
            now = tried;
        } else {
            free(tried);
        }
    }
    fixture_put(fixture_path(file), now);
    free(now);
}

static const char *const shows[] = {
    "plan -w w.json -c c.json",
    "plan -w w.json -c c.json --format json",
    "plan -w w.json -c c.json -o p.json",
    "plan p.json -o p2.json",
    "plan p.json",
    "plan diff p.json p.json",
    "sim -w w.json -c c.json --dp 2 --bucket-cap 1MiB --spans --format json",
    "sim -w w.json -c c.json --dp 2 --bucket-cap 1KiB --spans",
    "sim p.json --no-db --format csv",
    "exec -w w.json -c c.json --dp 2 --bucket-cap 1MiB --steps 2 --warmup 0 --format json",
    "runs",
    "runs --format json",
    "runs --format csv",
    "compare 1 3",
    "compare 1 3 --format json",
    "explain 1",
    "explain 3 --format json",
    "cluster c.json",
    "cluster c.json --format json",
    "cost -c c.json --ranks 2",
    "cost -c c.json --ranks 2 --format json",
    "report -o r.html",
    "plot timeline -o t.svg",
    "plot timeline -o -",
    "plot overlap -o -",
    "plot overlap -o o.svg",
    "plot predicted -o p.svg",
    "plot sweep -o s.svg",
    "plot timeline -o t.gp",
    "export 1 --format chrome -o e.json",
    "export 3 --format csv -o e.csv",
    "validate w.json",
    "golden w.json",
    "inspect w.json",
    "import w.json -o i.json",
    "doctor --format json",
    NULL};

static void check_files(void)
{
    char *html = fixture_get(fixture_path("r.html")), *chrome = fixture_get(fixture_path("e.json"));
    char *plan = fixture_get(fixture_path("p.json")), *svg = fixture_get(fixture_path("t.svg"));

    check_html(html);
    check_bytes(html, "r.html");
    check_bytes(svg, "t.svg");
    check_json(chrome, "e.json");
    check_json(plan, "p.json");
    char *again = fixture_get(fixture_path("p2.json"));
    assert_string_equal(plan, again); /* read and written once more */
    free(again);
    free(html);
    free(chrome);
    free(plan);
    free(svg);
}

TEST_WITH(texts_of_files_are_shown_and_never_executed, fixture_open, fixture_close)
{
    char *example = fixture_example("docs/formats/workload.md");

    fixture_put(fixture_path("w.json"), example);
    free(example);
    char *cluster = with_each_field("docs/formats/cluster.md", lw_cluster_file_fields, "c.json",
                                    "sim -w w.json -c c.json --no-db");
    char *workload = with_each_field("docs/formats/workload.md", lw_workload_file_fields, "w.json",
                                     "plan -w w.json -c c.json -o p.json");

    /* in 13 rounds each field takes each payload, in 5 one of three */
    for (int i = 0; i < N_PAYLOADS; i += unit_cases(3, 1)) {
        fixture_put(fixture_path("w.json"), workload);
        fixture_put(fixture_path("c.json"), cluster);
        put_payloads(workload, "w.json", i, "plan -w w.json -c c.json -o p.json");
        put_payloads(cluster, "c.json", i, "sim -w w.json -c c.json --no-db");
        run_each(shows);
        check_files();
        shell("rm -f lapwing.db*", NULL);
    }
    free(workload);
    free(cluster);
}

/* Names that are not UTF-8 are replaced once, when they are read: what is written reads back as
 * equal, from files, the database and an exported trace. */
TEST_WITH(names_that_are_not_utf_8_go_round, fixture_open, fixture_close)
{
    static const char *const commands[] = {"plan -w w.json --dp 2 -o p.json",
                                           "plan p.json -o p2.json",
                                           "sim p.json --spans",
                                           "exec p.json --steps 2 --warmup 0",
                                           "export 1 --format chrome -o e.json",
                                           "inspect e.json",
                                           "sim -w w.json --dp 2 --format json",
                                           "recommend w.json -c dgx-h100 --as-recorded --dp 2 "
                                           "--format json",
                                           "report -o r.html"};
    char *example = fixture_example("docs/formats/workload.md");
    char *text = fixture_replaced(example, "two-layer example", "a\xff\xc3(\xed\xa0\x80z");
    char *named = fixture_replaced(text, "embed.weight", "w\xfe");

    fixture_put(fixture_path("w.json"), named);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        assert_int_equal(run(commands[i]), 0);
    const char *const files[] = {"p.json", "p2.json"};
    for (int i = 0; i < 2; i++) {
        char *plan = fixture_get(fixture_path(files[i]));
        assert_non_null(strstr(plan, "\"a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd"));
        assert_non_null(strstr(plan, "\"w\xef\xbf\xbd\""));
        check_json(plan, files[i]);
        free(plan);
    }
    assert_string_equal(shell("cmp p.json p2.json", NULL), "");
    free(example);
    free(text);
    free(named);
}

TEST_WITH(arguments_are_shown_and_never_executed, fixture_open, fixture_close)
{
    static const char *const words[] = {"-$(printf '\\033[2J')",
                                        "\"$(printf 'a\\377\\303(`touch pwned`')\"",
                                        "'`touch pwned`'", "\"$(printf '\\302\\233')\""};
    static const char *const commands[][2] = {{"", ""},
                                              {"sim -w ", ""},
                                              {"sim ", ""},
                                              {"plan -w x --zero ", ""},
                                              {"help ", ""},
                                              {"cluster ", ""},
                                              {"model ", ""},
                                              {"inspect ", ""},
                                              {"import ", ""},
                                              {"runs --db ", ""},
                                              {"plot ", ""},
                                              {"plot timeline -o ", ".png"},
                                              {"golden ", ""},
                                              {"validate ", ""},
                                              {"exec --backend ", ""},
                                              {"calibrate --backend ", ""},
                                              {"bench ", ""},
                                              {"sim --", ""}};
    char line[256];

    for (size_t c = 0; c < sizeof commands / sizeof commands[0]; c++)
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            snprintf(line, sizeof line, "%s%s%s", commands[c][0], words[i], commands[c][1]);
            run(line);
            snprintf(line, sizeof line, "%s%s%s --format json", commands[c][0], words[i],
                     commands[c][1]);
            run(line);
        }
    run("--format json");
    run("nosuch --format json");
    run("-x --format json");
}

/* The commands of the program's own list, each with hostile words in the places where most take
 * one: JSON stays strict, whatever the command makes of them. */
TEST_WITH(each_command_of_the_table_keeps_json_strict, fixture_open, fixture_close)
{
    static const char *const places[] = {"", "x -w ", "x -c ", "x --db ", "x -o "};
    static const char *const words[] = {"\"$(printf 'a\\377\\303(`touch pwned`\\033[2J')\"",
                                        "\"'\\\"<script>\""};
    char *workload = fixture_example("docs/formats/workload.md"), *rest = NULL;
    int n = 0;

    fixture_put(fixture_path("x"), workload);
    free(workload);
    char *names = strdup(shell("$L help | sed -n 's/^  \\([a-z]*\\)  .*/\\1/p'", NULL));
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest), n++)
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
            for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
                char line[256];
                snprintf(line, sizeof line, "%s %s%s --format json", name, places[i], words[w]);
                run(line);
            }
    free(names);
    assert_true(n > 20);
}

/* The formats besides workload and cluster: each string value of their example. */
TEST_WITH(texts_of_other_formats_are_shown_and_never_executed, fixture_open, fixture_close)
{
    static const struct {
        const char *page, *file, *command;
        const struct lw_field *table;
    } formats[] = {{"docs/formats/strategy.md", "s.json", "plan -w w.json -s s.json", NULL},
                   {"docs/formats/plan.md", "f.json", "plan f.json --format json",
                    lw_plan_file_fields},
                   {"docs/formats/plan.md", "f.json",
                    "sim f.json --as-recorded --spans --format json",
                    lw_plan_file_fields}};
    char *workload = fixture_example("docs/formats/workload.md");

    fixture_put(fixture_path("w.json"), workload);
    free(workload);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char *text = formats[i].table ? with_each_field(formats[i].page, formats[i].table,
                                                        formats[i].file, formats[i].command)
                                      : fixture_example(formats[i].page);
        put_payloads(text, formats[i].file, (int)i, formats[i].command);
        free(text);
    }
    for (int k = 0; k < lw_strategy_n_options(); k++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"lapwing\": 1, \"kind\": \"strategy\", \"options\": {\"%s\": \"%s\"}}",
                 lw_strategy_option(k)->name, payloads[k % N_PAYLOADS]);
        fixture_put(fixture_path("s.json"), text);
        run("plan -w w.json -s s.json --format json");
    }
    run("runs --format json");
    run("report -o r.html");
    run("plot timeline -o t.svg");
}

/* --- a database of somebody else ---------------------------------------------------------------
 */

static const char *const reads[] = {"runs",
                                    "runs --format json",
                                    "runs --format csv",
                                    "compare 1 2",
                                    "compare 1 2 --format json",
                                    "explain 1",
                                    "explain 2 --format json",
                                    "report -o r.html",
                                    "plot timeline -o t.svg",
                                    "plot timeline -o -",
                                    "plot overlap -o o.svg",
                                    "plot predicted -o p.svg",
                                    "plot sweep -o s.svg",
                                    "plot predicted -o -",
                                    "export 1 --format chrome -o e.json",
                                    NULL};

static int columns_of_text(sqlite3 *db, char names[][2][64], int most)
{
    sqlite3_stmt *q;
    int n = 0;

    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT t.name, c.name FROM sqlite_schema AS t, "
                                        "pragma_table_info(t.name) AS c WHERE t.type = 'table' "
                                        "AND c.type = 'TEXT' ORDER BY 1, 2",
                                        -1, &q, NULL),
                     0);
    while (sqlite3_step(q) == SQLITE_ROW && n < most) {
        snprintf(names[n][0], 64, "%s", (const char *)sqlite3_column_text(q, 0));
        snprintf(names[n++][1], 64, "%s", (const char *)sqlite3_column_text(q, 1));
    }
    sqlite3_finalize(q);
    return n;
}

static void set_column(sqlite3 *db, char name[2][64], const char *value)
{
    char text[256];
    sqlite3_stmt *q;

    snprintf(text, sizeof text, "UPDATE OR IGNORE %s SET %s = ?", name[0], name[1]);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &q, NULL), 0);
    sqlite3_bind_text(q, 1, value, -1, SQLITE_STATIC);
    sqlite3_step(q); /* a constraint may refuse it */
    sqlite3_finalize(q);
}

static sqlite3 *open_copy(void)
{
    sqlite3 *db;

    shell("cp good.db lapwing.db", NULL);
    assert_int_equal(sqlite3_open(fixture_path("lapwing.db"), &db), SQLITE_OK);
    return db;
}

TEST_WITH(texts_of_a_database_are_shown_and_never_executed, fixture_open, fixture_close)
{
    static const char *const values[] = {"`touch pwned`",
                                         "' . system('touch pwned') . '",
                                         "\" . `touch pwned`",
                                         "x\nEOD\n!touch pwned",
                                         "<script>alert(1)</script>'\"&",
                                         "\033[2J\033]0;t\a\177\302\233m",
                                         "a\377\303(\355\240\200",
                                         "\\`touch pwned`\\"};
    char names[128][2][64];
    bool shown[128] = {false};

    char *workload = fixture_example("docs/formats/workload.md");
    fixture_put(fixture_path("w.json"), workload);
    free(workload);
    lapwing("sim -w w.json --dp 2 --spans --bucket-cap 1MiB", NULL);
    lapwing("exec -w w.json --dp 2 --steps 2 --bucket-cap 1MiB", NULL);
    shell("mv lapwing.db good.db; rm -f lapwing.db-*", NULL);
    sqlite3 *db = open_copy();
    int n = columns_of_text(db, names, 128);
    sqlite3_close(db);
    assert_true(n > 20);
    for (int c = 0; c < n; c++) { /* columns that can hold anything */
        db = open_copy();
        set_column(db, names[c], "x`touch pwned`");
        sqlite3_close(db);
        shown[c] = run("report -o r.html") == 0 && run("explain 1") == 0;
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        db = open_copy();
        for (int c = 0; c < n; c++)
            if (shown[c])
                set_column(db, names[c], values[i]);
        sqlite3_close(db);
        run_each(reads);
        char *html = fixture_get(fixture_path("r.html"));
        check_html(html);
        check_bytes(html, "r.html");
        free(html);
    }
}
