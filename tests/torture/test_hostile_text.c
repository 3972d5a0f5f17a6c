/* Texts that others wrote, in every field that takes any, through every command that shows it:
 * nothing is executed, no control byte and no invalid UTF-8 leaves, JSON stays strict and HTML
 * stays nested. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/strategy/strategy.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/hostile.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/text_fields.h"

/* As they stand in a JSON string. `touch` makes the file that no command may make. */
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
        bool taken = hostile_run(command) == 0;
        if (!taken && f->kind == LW_FIELD_STRING)
            fail_msg("%s: '%s' is in no example and cannot be added:\n%s", page, f->name, tried);
        k += !taken;
        free(taken ? now : tried);
        now = taken ? tried : now;
    }
    fixture_put(fixture_path(file), now);
    return now;
}

/* Which values of a text take any text. Those that name one of a few things, or another field, do
 * not. */
struct takers {
    bool known;
    bool takes[1000];
};

static char *with_payload(char *now, int i, int first)
{
    char *out = with_value(now, i, payloads[(first + i) % N_PAYLOADS]);

    free(now);
    return out;
}

/* In the file, value i of the text is payload first + i, where `command` still reads it. Which
 * these are is found once, a value at a time, and again where a later text is refused. */
static void put_payloads(const char *text, const char *file, int first, const char *command,
                         struct takers *t)
{
    char *now = strdup(text);
    size_t len;

    for (int i = 0; t->known && nth_value(now, i, &len); i++)
        if (t->takes[i])
            now = with_payload(now, i, first);
    fixture_put(fixture_path(file), now);
    if (t->known && hostile_run(command) == 0) {
        free(now);
        return;
    }
    free(now);
    now = strdup(text);
    for (int i = 0; nth_value(now, i, &len); i++) {
        char *tried = with_payload(strdup(now), i, first);
        assert_true(i < (int)(sizeof t->takes / sizeof t->takes[0]));
        fixture_put(fixture_path(file), tried);
        t->takes[i] = hostile_run(command) == 0;
        free(t->takes[i] ? now : tried);
        now = t->takes[i] ? tried : now;
    }
    t->known = true;
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
    "plot timeline -o t.gp",
    "export 1 --format chrome -o e.json",
    "export 3 --format csv -o e.csv",
    "validate w.json",
    "golden w.json",
    "inspect w.json",
    "import w.json -o i.json",
    "doctor --format json",
    NULL};

/* By turns, where LAPWING_MANY does not ask for each. */
static const char *const draws[] = {"plot overlap -o o.svg", "plot predicted -o p.svg",
                                    "plot sweep -o s.svg"};

static void check_files(void)
{
    char *html = fixture_get(fixture_path("r.html")), *chrome = fixture_get(fixture_path("e.json"));
    char *plan = fixture_get(fixture_path("p.json")), *svg = fixture_get(fixture_path("t.svg"));

    hostile_html(html);
    hostile_bytes(html, "r.html");
    hostile_bytes(svg, "t.svg");
    hostile_json(chrome, "e.json");
    hostile_json(plan, "p.json");
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

    struct takers of_workload = {0}, of_cluster = {0};

    /* in 13 rounds each field takes each payload, in 3 one of five */
    for (int i = 0; i < N_PAYLOADS; i += unit_cases(5, 1)) {
        fixture_put(fixture_path("w.json"), workload);
        fixture_put(fixture_path("c.json"), cluster);
        put_payloads(workload, "w.json", i, "plan -w w.json -c c.json -o p.json",
                     &of_workload);
        put_payloads(cluster, "c.json", i, "sim -w w.json -c c.json --no-db", &of_cluster);
        hostile_run_each(shows);
        for (int k = unit_cases(i / 5, 0); k < 3; k += unit_cases(3, 1))
            hostile_run(draws[k]);
        check_files();
        shell("rm -f lapwing.db*", NULL);
    }
    free(workload);
    free(cluster);
}

/* gnuplot reads labels of an axis as formats, but not titles and keys. Two runs are labelled by
 * their names, as these were given. */
TEST_WITH(pictures_show_names_as_they_are, fixture_open, fixture_close)
{
    static const char *const names[] = {
        "100% of it", "a%dz", "%s%n%5d %% %h", "{/Times x}_b^c \\n @a", "%", "a%999999999gz"};
    char *workload = fixture_example("docs/formats/workload.md"), words[1024];
    int rc;

    fixture_put(fixture_path("w.json"), workload);
    free(workload);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(words, sizeof words,
                 "rm -f lapwing.db*; $L sim -w w.json --dp 2 --spans -q --name '%s'; "
                 "$L sim -w w.json --dp 2 --spans -q --bucket-cap 1KiB --name 'other %s'; "
                 "ulimit -t 30; for k in overlap timeline; do $L plot $k -o $k.svg || exit; done",
                 names[i], names[i]);
        const char *out = shell(words, &rc);
        if (rc != 0)
            fail_msg("%s: exit %d:\n%s", words, rc, out);
        for (int k = 0; k < 2; k++) {
            char *svg = fixture_get(fixture_path(k ? "timeline.svg" : "overlap.svg"));
            snprintf(words, sizeof words, ": %s", names[i]);
            bool first = strstr(svg, words) != NULL;
            snprintf(words, sizeof words, ": other %s", names[i]);
            if (!first || !strstr(svg, words))
                fail_msg("'%s' is not shown by\n%s", names[i], svg);
            free(svg);
        }
    }
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
        assert_int_equal(hostile_run(commands[i]), 0);
    const char *const files[] = {"p.json", "p2.json"};
    for (int i = 0; i < 2; i++) {
        char *plan = fixture_get(fixture_path(files[i]));
        assert_non_null(strstr(plan, "\"a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd"));
        assert_non_null(strstr(plan, "\"w\xef\xbf\xbd\""));
        hostile_json(plan, files[i]);
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
            for (int json = unit_cases((int)(c + i) % 2, 0); json < 2; json += unit_cases(2, 1)) {
                snprintf(line, sizeof line, "%s%s%s%s", commands[c][0], words[i], commands[c][1],
                         json ? " --format json" : "");
                hostile_run(line);
            }
        }
    hostile_run("--format json");
    hostile_run("nosuch --format json");
    hostile_run("-x --format json");
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
                hostile_run(line);
            }
    free(names);
    assert_true(n > 20);
}

/* The formats besides workload and cluster: each string value of their example. */
TEST_WITH(texts_of_other_formats_are_shown_and_never_executed, fixture_open, fixture_close)
{
    static const char sim[] = "sim f.json --as-recorded --spans --format json";
    static const char plan[] = "plan f.json --format json";
    struct takers of_strategy = {0}, of_plan = {0};
    struct lw_plan_format format;
    char *workload = fixture_example("docs/formats/workload.md");
    char *strategy = fixture_example("docs/formats/strategy.md");

    fixture_put(fixture_path("w.json"), workload);
    put_payloads(strategy, "s.json", 0, "plan -w w.json -s s.json", &of_strategy);
    char *made = with_each_field("docs/formats/plan.md", lw_plan_file_fields(&format), "f.json",
                                 plan);
    assert_int_equal(hostile_run(sim), 0);
    put_payloads(made, "f.json", 1, plan, &of_plan);
    put_payloads(made, "f.json", 2, sim, &of_plan);
    free(workload);
    free(strategy);
    free(made);
    for (int k = 0; k < lw_strategy_n_options(); k++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"lapwing\": 1, \"kind\": \"strategy\", \"options\": {\"%s\": \"%s\"}}",
                 lw_strategy_option(k)->name, payloads[k % N_PAYLOADS]);
        fixture_put(fixture_path("s.json"), text);
        hostile_run("plan -w w.json -s s.json --format json");
    }
    hostile_run("runs --format json");
    hostile_run("report -o r.html");
    hostile_run("plot timeline -o t.svg");
}
