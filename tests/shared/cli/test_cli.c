/* The command line as people type it: the binary's own answers and exit statuses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "shared/cli/cli.h"

struct opts {
    const char *unused;
    bool flag;
    int64_t count, bytes;
    const char *name, *how;
    enum lw_format format;
};

static enum lw_status parse(struct opts *o, char *line, char **argv, int *n_operands,
                            struct lw_err *err)
{
    const struct lw_opt table[] = {
        {"flag", 'f', LW_OPT_FLAG, &o->flag, NULL, ""},
        {"count", 'n', LW_OPT_INT, &o->count, "N", "", 1, 9},
        {"big-size", 0, LW_OPT_SIZE, &o->bytes, "SIZE", ""},
        {"name", 0, LW_OPT_STRING, &o->name, "TEXT", ""},
        {"format", 0, LW_OPT_FORMAT, &o->format, "F", ""},
        {"how", 0, LW_OPT_STRING, &o->how, "fast|slow", ""},
        {"find-unused", 0, LW_OPT_STRING, &o->unused, "on|off", ""},
        {0},
    };
    int argc = 0;
    bool help;

    for (char *p = strtok(line, " "); p; p = strtok(NULL, " "))
        argv[argc++] = p;
    argv[argc] = NULL;
    return lw_cli_parse(table, argc, argv, n_operands, &help, err);
}

TEST(options_and_operands_may_mix)
{
    struct opts o = {0};
    struct lw_err err;
    char *argv[20], line[] = "cmd a -n 3 --big_size=4KiB - --flag --format json -- --name";
    int n;

    assert_int_equal(parse(&o, line, argv, &n, &err), LW_OK);
    assert_int_equal(o.count, 3);
    assert_int_equal(o.bytes, 4096);
    assert_true(o.flag);
    assert_int_equal(o.format, LW_FORMAT_JSON);
    assert_int_equal(n, 3);
    assert_string_equal(argv[1], "a");
    assert_string_equal(argv[2], "-");
    assert_string_equal(argv[3], "--name");
}

TEST(a_switch_alone_means_on)
{
    static const struct { const char *line, *value; int n_operands; } cases[] = {
        {"cmd --find-unused", "on", 0},        {"cmd --find-unused --flag", "on", 0},
        {"cmd --find-unused off a", "off", 1}, {"cmd --find-unused a", "on", 1},
        {"cmd --find-unused=off", "off", 0},   {"cmd a --find-unused on --flag", "on", 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opts o = {0};
        struct lw_err err = {0};
        char *argv[20], line[64];
        int n;
        snprintf(line, sizeof line, "%s", cases[i].line);
        assert_int_equal(parse(&o, line, argv, &n, &err), LW_OK);
        assert_string_equal(o.unused, cases[i].value);
        assert_int_equal(n, cases[i].n_operands);
        assert_int_equal(o.flag, strstr(cases[i].line, "--flag") != NULL);
    }
}

TEST(a_bad_option_is_named_with_what_is_allowed)
{
    static const struct { const char *line, *message; } cases[] = {
        {"cmd --count 12", "--count: '12' is not a whole number from 1 to 9"},
        {"cmd --format xml", "--format: unknown value 'xml'; expected one of text, json, csv"},
        {"cmd --format jsn", "--format: unknown value 'jsn' (did you mean 'json'?); expected one "
                             "of text, json, csv"},
        {"cmd --how fsat", "--how: unknown value 'fsat' (did you mean 'fast'?); expected one of "
                           "fast, slow"},
        {"cmd --how=", "--how: the value is empty; expected fast|slow"},
        {"cmd --find-unused yes", "--find-unused: unknown value 'yes'; expected one of on, off"},
        {"cmd --count", "option '--count' needs a value"},
        {"cmd --nope", "unknown option '--nope'"},
        {"cmd --powersgd 4",
         "unknown option '--powersgd': PowerSGD sends factors of low rank and keeps the error: no "
         "sum of gradients, so no plan has it; --comm-hook fp16|bf16 narrows the wire"},
        {"cmd --offload-optimizer=on",
         "unknown option '--offload-optimizer': here it is --offload optimizer"},
        {"cmd --big 4KiB", "unknown option '--big' (did you mean '--big-size'?)"},
        {"cmd -count 3", "option '-count' has one dash, expected two: '--count'"},
        {"cmd -flag", "option '-flag' has one dash, expected two: '--flag'"},
        {"cmd -big_size=4KiB",
         "option '-big_size=4KiB' has one dash, expected two: '--big-size=4KiB'"},
        {"cmd a -cuont 3", "unknown option '-cuont' (did you mean '--count'?)"},
        {"cmd a -z", "unknown option '-z'"},
        {"cmd --big-size 25M",
         "--big-size: '25M': unknown unit 'M' (did you mean '25MiB'?); expected a number with KiB "
         "MiB GiB TiB, KB MB GB TB, or bytes"},
        {"cmd --forma=json", "unknown option '--forma=json' (did you mean '--format'?)"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opts o = {0};
        struct lw_err err = {0};
        char *argv[20], line[64];
        int n;
        snprintf(line, sizeof line, "%s", cases[i].line);
        assert_int_equal(parse(&o, line, argv, &n, &err), LW_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static int exit_of(const char *arguments)
{
    char command[512];
    const char *lapwing = getenv("LAPWING");

    snprintf(command, sizeof command, "exec >/dev/null 2>&1; %s %s",
             lapwing ? lapwing : "build/lapwing", arguments);
    return WEXITSTATUS(system(command));
}

TEST(wrong_usage_exits_2_and_help_exits_0)
{
    assert_int_equal(exit_of(""), 0);
    assert_int_equal(exit_of("help"), 0);
    assert_int_equal(exit_of("help strategy"), 0);
    assert_int_equal(exit_of("help version"), 0);
    assert_int_equal(exit_of("version -v"), 0);
    assert_int_equal(exit_of("help nope"), 2);
    assert_int_equal(exit_of("help plan sim"), 2);
    assert_int_equal(exit_of("help --format nope"), 2);
    assert_int_equal(exit_of("nope"), 2);
    assert_int_equal(exit_of("version --nope"), 2);
    assert_int_equal(exit_of("version extra"), 2);
    assert_int_equal(exit_of("help >/dev/full"), 1);
}

/* A database is named and none is used: one of both is a slip. --run reads its plan from it. */
TEST(a_database_beside_no_db_is_refused)
{
    assert_int_equal(exit_of("sim -w mlp -c p4d --db x.db --no-db"), 2);
    assert_int_equal(exit_of("sim -w mlp -c p4d --no-db --db x.db"), 2);
    assert_int_equal(exit_of("tune -w mlp -c p4d --ranks 2 --global-batch 2 --no-db --db x.db"), 2);
    assert_int_equal(exit_of("exec -w mlp --no-db --db x.db"), 2);
    assert_int_equal(exit_of("sim --run 1 --no-db --db x.db"), 1); /* no such file */
}

static char *output_of(const char *arguments)
{
    char command[512];
    char *text = calloc(1, 1 << 16);
    const char *lapwing = getenv("LAPWING");

    snprintf(command, sizeof command, "%s %s", lapwing ? lapwing : "build/lapwing", arguments);
    FILE *f = popen(command, "r");
    assert_int_not_equal(fread(text, 1, (1 << 16) - 1, f), 0);
    pclose(f);
    return text;
}

TEST(version_answers_in_every_format)
{
    char *json = output_of("version --format json"), *csv = output_of("version --format csv");
    char *text = output_of("version"), *all = output_of("version -v --format json");
    char expected[128];

    snprintf(expected, sizeof expected, "{\n  \"version\": \"%s\"\n}\n", LW_VERSION);
    assert_string_equal(json, expected);
    snprintf(expected, sizeof expected, "what,value\nversion,%s\n", LW_VERSION);
    assert_string_equal(csv, expected);
    snprintf(expected, sizeof expected, "lapwing %s\n", LW_VERSION);
    assert_string_equal(text, expected);
    assert_non_null(strstr(all, "\"compiler\": \""));
    assert_non_null(strstr(all, "\"xxhash\": \""));
    free(json);
    free(csv);
    free(text);
    free(all);
}

/* The one bad end of a full disk that a test can make without a disk: files may not grow. */
TEST(a_file_that_may_not_grow_is_an_error_and_leaves_nothing)
{
    char folder[] = "/tmp/lapwing-cli-XXXXXX", arguments[256];

    assert_non_null(mkdtemp(folder));
    struct rlimit usual, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = usual;
    small.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    snprintf(arguments, sizeof arguments, "model resnet50 -o %s/w.json 2>&1", folder);
    char *said = output_of(arguments);
    snprintf(arguments, sizeof arguments, "model resnet50 -o %s/w.json", folder);
    int rc = exit_of(arguments);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);

    assert_non_null(strstr(said, "/w.json: cannot write: File too large\n"));
    assert_int_equal(rc, 1);
    assert_int_equal(rmdir(folder), 0); /* nothing is left in it */
    free(said);
}

TEST(manual_pages_and_completion_come_from_the_tables)
{
    char *man = output_of("version --help-man"), *words = output_of("version --help-words");
    char *all = output_of("help --man"), *script = output_of("help --completion");

    assert_non_null(strstr(man, ".TH LAPWING\\-VERSION 1"));
    assert_non_null(strstr(man, ".B \\-v, \\-\\-verbose"));
    assert_string_equal(words, "--verbose\n--format=\n--help\n");
    assert_non_null(strstr(all, ".BR lapwing\\-version (1)"));
    assert_non_null(strstr(script, "complete -F _lapwing lapwing"));
    char *options = output_of("help version --format csv");
    assert_string_equal(options, "option,letter,argument,help\n"
                                 "verbose,v,,\"compiler, flags and library versions\"\n"
                                 "format,,text|json|csv,output format (text)\n");
    free(options);
    char *commands = output_of("help --format csv"),
         *strategy = output_of("help strategy --format json");
    assert_non_null(strstr(commands, "\nversion,"));
    assert_non_null(strstr(strategy, "{\"name\": \"overlap\", \"argument\": \"on|off\", "));
    free(commands);
    free(strategy);
    free(man);
    free(words);
    free(all);
    free(script);
}

/* The text of "sh -c TEXT", empty when it says nothing. */
static void expect_from(const char *text, const char *want)
{
    char got[4096];
    FILE *f = popen(text, "r");

    assert_non_null(f);
    size_t n = fread(got, 1, sizeof got - 1, f);
    got[n] = '\0';
    pclose(f);
    assert_string_equal(got, want);
}

TEST(every_manual_page_renders_without_a_warning)
{
    if (!getenv("LAPWING") || system("command -v groff >/dev/null") != 0) {
        printf("SKIP groff is not installed: manual pages are not rendered\n");
        skip();
    }
    expect_from("for c in $($LAPWING help | sed -n 's/^  \\([a-z]*\\) .*/\\1/p'); do "
                "[ $c = help ] || $LAPWING $c --help-man | groff -man -Tutf8 -ww 2>&1 >/dev/null; "
                "done; $LAPWING help --man | groff -man -Tutf8 -ww 2>&1 >/dev/null", "");
}

TEST(completion_offers_commands_and_their_options)
{
    if (!getenv("LAPWING") || system("command -v bash >/dev/null") != 0) {
        printf("SKIP bash is not installed: completion is not tried\n");
        skip();
    }
    expect_from("bash -c 'eval \"$($LAPWING help --completion)\"; lapwing() { $LAPWING \"$@\"; };"
                " COMP_WORDS=(lapwing exp) COMP_CWORD=1; _lapwing; echo ${COMPREPLY[@]};"
                " COMP_WORDS=(lapwing export --f) COMP_CWORD=2; _lapwing; echo ${COMPREPLY[@]}' "
                "2>/dev/null", "explain export\n--format= --force\n");
}

/* Every command of the table; options come from the command when they are asked for. */
TEST(zsh_and_fish_complete_from_the_same_tables)
{
    char *zsh = output_of("help --completion zsh"), *fish = output_of("help --completion fish");
    char *commands = output_of("help --format csv"), *line = strchr(commands, '\n'), want[160];
    int n = 0;

    for (; line && line[1]; line = strchr(line + 1, '\n'), n++) {
        int len = (int)strcspn(line + 1, ",");
        snprintf(want, sizeof want, "\n            '%.*s:", len, line + 1);
        assert_non_null(strstr(zsh, want));
        snprintf(want, sizeof want, " -f -a %.*s -d '", len, line + 1);
        assert_non_null(strstr(fish, want));
    }
    assert_true(n > 15);
    free(commands);
    assert_non_null(strstr(zsh, "lapwing $words[2] --help-words"));
    assert_non_null(strstr(fish, "lapwing $tokens[2] --help-words"));
    free(zsh);
    free(fish);
    if (!getenv("LAPWING"))
        skip();
    expect_from("$LAPWING help --completion tcsh 2>&1 | head -1",
                "lapwing help: no completion for 'tcsh'; expected bash, zsh or fish; see 'lapwing "
                "help help'\n");
    if (system("command -v zsh >/dev/null") != 0)
        printf("SKIP zsh is not installed: its completion is not parsed\n");
    else
        expect_from("$LAPWING help --completion zsh | zsh -n 2>&1", "");
    if (system("command -v fish >/dev/null") != 0)
        printf("SKIP fish is not installed: its completion is not tried\n");
    else
        expect_from("$LAPWING help --completion fish > \"${TMPDIR:-/tmp}/lw.$$.fish\"; fish -c "
                    "\"function lapwing; $LAPWING \\$argv; end; source ${TMPDIR:-/tmp}/lw.$$.fish;"
                    " complete -C 'lapwing export --f'\" 2>&1; rm \"${TMPDIR:-/tmp}/lw.$$.fish\"",
                    "--force\n--format=\n");
}

/* Options that take a stored run. */
TEST(a_run_is_a_number_or_the_last)
{
    struct lw_err err = {0};

    assert_int_equal(lw_cli_run("12", &err), LW_OK);
    assert_int_equal(lw_cli_run("last", &err), LW_OK);
    assert_int_equal(lw_cli_run("", &err), LW_EINVAL);
    assert_int_equal(lw_cli_run("1x", &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "found '1x', expected the number of a run, or 'last'"));
    assert_int_equal(lw_cli_search("12", &err), LW_OK);
    assert_int_equal(lw_cli_search("last", &err), LW_OK);
    assert_int_equal(lw_cli_search("1x", &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "found '1x', expected the number of a search, or 'last'"));
}
