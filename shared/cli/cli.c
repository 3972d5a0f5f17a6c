/* The command line, the same for every subcommand: one table per command, getopt_long
 * underneath. */
#include "shared/cli/cli.h"

#include <assert.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/cli/cli_help.h"
#include "shared/base/nearest.h"
#include "shared/io/output.h"
#include "shared/text/shown_stdout.h"
#include "shared/text/wrap.h"
#include "shared/base/shown_text.h"
#include "shared/io/used_files.h"
#include "shared/numbers/units.h"

enum { MAX_OPTIONS = 224, FIRST_LONG = 256, HELP_ID = FIRST_LONG - 1 };

void lw_cli_signals(void)
{
    signal(SIGXFSZ, SIG_IGN); /* EFBIG */
    signal(SIGPIPE, SIG_IGN); /* EPIPE */
}

static int exit_of(enum lw_status s)
{
    switch (s) {
    case LW_OK:
        return LW_EXIT_OK;
    case LW_ENO:
        return LW_EXIT_NO;
    case LW_EUSAGE:
        return LW_EXIT_USAGE;
    case LW_ELOAD:
        return LW_EXIT_LOAD;
    default:
        return LW_EXIT_COULD_NOT;
    }
}

/* Of the one command that this process runs. */
static bool wants_json, says_nothing;

/* For errors that come before the options are read. */
static void look_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        wants_json |= strcmp(argv[i], "--format=json") == 0 ||
                      (i + 1 < argc && strcmp(argv[i], "--format") == 0 &&
                       strcmp(argv[i + 1], "json") == 0);
}

void lw_cli_no_json(void)
{
    says_nothing = true;
}

/* With JSON output an object is printed also if there is no result. */
static void print_failure(const char *command, const char *message, enum lw_status code)
{
    struct lw_jsonout o = {.file = stdout};

    if (!wants_json || says_nothing || lw_stdout_used())
        return;
    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "command", command, "status", code == LW_ETIMEOUT ? "timeout" : "failed",
            "error", message, "exit_status", exit_of(code));
    lw_jsonout_end(&o);
    fflush(stdout);
}

struct spec { /* what getopt_long needs, made from our table */
    struct option longs[MAX_OPTIONS + 2];
    char shorts[2 * MAX_OPTIONS + 8];
    int n;
};

static bool is_words(const char *arg)
{
    return arg && !arg[strspn(arg, "abcdefghijklmnopqrstuvwxyz0123456789-|")];
}

static void make_spec(const struct lw_opt *table, struct spec *s)
{
    char *p = s->shorts;

    memset(s, 0, sizeof *s);
    *p++ = ':';
    for (; table[s->n].name; s->n++) {
        const struct lw_opt *o = &table[s->n];
        assert(s->n < MAX_OPTIONS);
        assert(o->kind != LW_OPT_STRING || o->check || is_words(o->arg) ||
               lw_cli_takes_any(o->arg));
        int has_arg = o->kind == LW_OPT_FLAG ? no_argument : required_argument;
        s->longs[s->n] = (struct option){o->name, has_arg, NULL, FIRST_LONG + s->n};
        if (o->letter) {
            *p++ = o->letter;
            if (has_arg == required_argument)
                *p++ = ':';
        }
    }
    s->longs[s->n] = (struct option){"help", no_argument, NULL, HELP_ID};
    *p++ = 'h';
}

static const struct lw_opt *find_letter(const struct lw_opt *table, int letter)
{
    for (; table->name; table++)
        if (table->letter == letter)
            return table;
    return NULL;
}

static enum lw_status parse_format(const char *text, enum lw_format *f, struct lw_err *err)
{
    static const char *const names[] = {"text", "json", "csv", NULL};

    for (int i = 0; names[i]; i++)
        if (strcmp(text, names[i]) == 0) {
            *f = (enum lw_format)i;
            return LW_OK;
        }
    return lw_fail_word(err, NULL, text, names);
}

/* "a number from 0 to 1" */
static enum lw_status refuse_double(const struct lw_opt *o, const char *text, bool finite,
                                    struct lw_err *err)
{
    bool above = o->check == lw_cli_above_0;
    char range[80];

    if (above && o->max)
        snprintf(range, sizeof range, "above 0, at most %lld", (long long)o->max);
    else if (above)
        snprintf(range, sizeof range, "above 0");
    else if (o->max)
        snprintf(range, sizeof range, "from %lld to %lld", (long long)o->min, (long long)o->max);
    else
        snprintf(range, sizeof range, "of %lld or more", (long long)o->min);
    return lw_fail(err, LW_EINVAL, "'%s' is not a %snumber %s", text, finite ? "" : "finite ",
                   range);
}

static enum lw_status parse_double(const struct lw_opt *o, const char *text, struct lw_err *err)
{
    char *end;
    double x = strtod(text, &end);
    bool is_number = end != text && !*end;

    if (!is_number || !isfinite(x) || !(x >= (double)o->min) ||
        (o->max && !(x <= (double)o->max)))
        return refuse_double(o, text, !is_number || isfinite(x), err);
    *(double *)o->value = x;
    return LW_OK;
}

static bool is_switch(const struct lw_opt *o)
{
    return o->arg && strcmp(o->arg, "on|off") == 0;
}

/* Where an option takes one of the words of its arg ("gemm|spin|sleep"), another one is refused
 * here. */
static enum lw_status check_word(const struct lw_opt *o, const char *text, struct lw_err *err)
{
    enum { MOST_WORDS = 16 };
    const char *words[MOST_WORDS] = {NULL};
    char all[160];
    int n = 0;

    if (!is_words(o->arg) || !*text) /* the caller says that it is empty */
        return LW_OK;
    snprintf(all, sizeof all, "%s", o->arg);
    for (char *p = all, *rest; (p = strtok_r(p, "|", &rest)) && n < MOST_WORDS - 1; p = NULL) {
        if (strcmp(p, text) == 0)
            return LW_OK;
        words[n++] = p;
    }
    return lw_fail_word(err, NULL, text, words);
}

bool lw_cli_takes_any(const char *arg)
{
    static const char *const any[] = {"FILE", "DIR", "OUT", "MODEL|FILE", "NAME|FILE", "KIND",
                                      "CLUSTER", "NAMES", "TEXT", "RUN"};

    for (size_t i = 0; arg && i < sizeof any / sizeof *any; i++)
        if (strcmp(arg, any[i]) == 0)
            return true;
    return false;
}

enum lw_status lw_cli_above_0(const char *value, struct lw_err *err)
{
    char *end;
    double x = strtod(value, &end);

    return end != value && !*end && !isnan(x) && !(x > 0)
               ? lw_fail(err, LW_EINVAL, "'%s' is not a number above 0", value)
               : LW_OK; /* another text is refused as one */
}

static enum lw_status check_number_of(const char *what, const char *value, struct lw_err *err)
{
    if (strcmp(value, "last") == 0 || (*value && value[strspn(value, "0123456789")] == '\0'))
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "found '%s', expected the number of a %s, or 'last'", value,
                   what);
}

enum lw_status lw_cli_run(const char *value, struct lw_err *err)
{
    return check_number_of("run", value, err);
}

enum lw_status lw_cli_search(const char *value, struct lw_err *err)
{
    return check_number_of("search", value, err);
}

static enum lw_status parse_size(const struct lw_opt *o, const char *text, struct lw_err *err)
{
    int64_t bytes = 0;
    char least[32], most[32];

    LW_TRY(lw_parse_size(text, &bytes, err));
    if (bytes < o->min || (o->max && bytes > o->max))
        return lw_fail(err, LW_EINVAL, "'%s' is not a size from %s%s%s", text,
                       lw_format_bytes(least, o->min), o->max ? " to " : " upwards",
                       o->max ? lw_format_bytes(most, o->max) : "");
    *(int64_t *)o->value = bytes;
    return LW_OK;
}

enum lw_status lw_cli_set(const struct lw_opt *o, const char *text, struct lw_err *err)
{
    struct lw_opt_call *call;

    if (!is_switch(o) || o->kind == LW_OPT_STRING) /* another names its own values */
        LW_TRY(check_word(o, text, err));
    if (o->kind != LW_OPT_FLAG && !*text)
        return lw_fail(err, LW_EINVAL, "the value is empty; expected %s", o->arg);
    if (o->check)
        LW_TRY(o->check(text, err));
    switch (o->kind) {
    case LW_OPT_FLAG:
        *(bool *)o->value = true;
        return LW_OK;
    case LW_OPT_STRING:
        *(const char **)o->value = text;
        return LW_OK;
    case LW_OPT_INT:
        return lw_parse_int(text, o->min, o->max ? o->max : INT64_MAX, o->value, err);
    case LW_OPT_SIZE:
        return parse_size(o, text, err);
    case LW_OPT_TIME:
        return lw_parse_time(text, o->value, err);
    case LW_OPT_DOUBLE:
        return parse_double(o, text, err);
    case LW_OPT_FORMAT:
        LW_TRY(parse_format(text, o->value, err));
        wants_json = *(enum lw_format *)o->value == LW_FORMAT_JSON;
        return LW_OK;
    case LW_OPT_CALL:
        call = o->value;
        return call->set(call->ctx, o->name, text, err);
    }
    return LW_OK;
}

/* "--bucket_cap" is "--bucket-cap". Only the name is touched, in place. */
static void dashes_for_underscores(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strncmp(argv[i], "--", 2) == 0)
            for (char *p = argv[i] + 2; *p && *p != '='; p++)
                if (*p == '_')
                    *p = '-';
}

static const struct lw_opt *option_of(const struct lw_opt *table, int n, int c)
{
    return c >= FIRST_LONG && c < FIRST_LONG + n ? &table[c - FIRST_LONG] : find_letter(table, c);
}

/* A switch alone means "on": a word after it is left for the scan, unless it can only be meant as a
 * value ("yes" is then refused as one). */
static const char *switch_value(char **argv, bool is_last)
{
    static const char *const values[] = {"on", "off", "yes", "no", "true", "false"};

    if (is_last)
        return "on";
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strcmp(optarg, values[i]) == 0)
            return optarg;
    if (optarg == argv[optind - 1]) {
        optind--;
        return "on";
    }
    return optarg;
}

/* getopt_long takes "--seq 8192" for "--sequence-parallel": a name must be whole, so that an
 * option that is added later never changes what a command line means. */
static bool is_whole_name(const char *word, const char *name)
{
    size_t n = strcspn(word, "=");

    return n == 2 + strlen(name) && strncmp(word + 2, name, n - 2) == 0;
}

/* What programs do under these names, and why no plan has it. docs/design/frameworks.md has the
 * table. */
static const struct {
    const char *name, *why;
} unplanned[] = {
    {"powersgd", "PowerSGD sends factors of low rank and keeps the error: no sum of gradients, so "
                 "no plan has it; --comm-hook fp16|bf16 narrows the wire"},
    {"join", "uneven inputs (DDP's join()) end ranks at different steps: a plan's ranks run the "
             "same steps; plan the shortest input"},
    {"delay-all-reduce-named-params",
     "delayed all-reduces of named parameters are not planned: --bucket-policy single reduces all "
     "after the last gradient"},
    {"optimizer-in-backward",
     "layer-wise optimizers are not planned: the update comes after all reductions; --framework "
     "torchtune-optimizer-in-backward has their memory"},
    {"offload-optimizer", "here it is --offload optimizer"},
    {"optimizer-cpu-offload", "here it is --offload update"},
    {"cpu-offload", "here it is --offload update"},
    {"offload-activations", "here it is --offload activations"},
    {"cpu-offloading", "here it is --offload activations"},
    {"cpu-offloading-num-layers", "here it is --offload activations --offload-layers N"},
    {"enable-activation-offloading", "here it is --offload activations"},
    {"use-parallel-residual", "parallel blocks are those of the models gpt-neox-20b, pythia-6.9b, "
                              "gpt-j-6b, falcon-7b, falcon-40b and phi-2, or of a config.json"},
    {"stage3-prefetch-bucket-size", "here it is --prefetch-bucket-size N, in elements"},
    {"stage3-max-live-parameters", "here it is --max-live-parameters N, in elements"},
    {"stage3-param-persistence-threshold", "here it is --persist N + 1: parameters of fewer than "
                                           "so many elements stay on every rank"},
    {"stage3-max-reuse-distance", "weights are freed after each use: --reshard off keeps them"},
    {"overlap-comm", "here it is --overlap on|off"},
    {"allgather-bucket-size",
     "DeepSpeed gathers a group of parameters in one call where torch has all_gather_into_tensor, "
     "whatever this size is (runtime/utils.py, all_gather_dp_groups)"},
    {"moe-token-dispatcher-type", "here it is --dispatcher all-to-all, or of flex deepep or "
                                  "hybridep"},
    {"moe-flex-dispatcher-backend", "here it is --dispatcher deepep|hybridep"},
    {"overlap-moe-expert-parallel-comm", "here it is --expert-overlap on"},
    {"no-align-param-gather", "here it is --align-param-gather off"},
    {"fp8-output-proj", "here it is --narrow-products head"},
    {"parallel-blocks", "parallel blocks are those of the models gpt-neox-20b, pythia-6.9b, "
                        "gpt-j-6b, falcon-7b, falcon-40b and phi-2, or of a config.json"},
};

/* "--name=value" or "--name" that the table does not have. */
static enum lw_status unknown_option(const struct lw_opt *table, const char *what,
                                     struct lw_err *err)
{
    char word[64], hint[96];

    snprintf(word, sizeof word, "%.*s", (int)strcspn(what, "="), what);
    for (size_t i = 0; i < sizeof unplanned / sizeof *unplanned; i++)
        if (strcmp(word + strspn(word, "-"), unplanned[i].name) == 0)
            return lw_fail(err, LW_EINVAL, "unknown option '%s': %s", word, unplanned[i].why);
    struct lw_nearest near = lw_nearest_begin(word + strspn(word, "-"));
    for (const struct lw_opt *o = table; o->name; o++)
        lw_nearest_try(&near, o->name);
    return lw_fail(err, LW_EINVAL, "unknown option '%s'%s", what,
                   lw_nearest_hint(&near, "--", hint, sizeof hint));
}

/* The option has the name word[n], in which '_' is '-'. */
static bool is_named(const struct lw_opt *o, const char *word, size_t n)
{
    size_t k = 0;

    while (k < n && (word[k] == '_' ? '-' : word[k]) == o->name[k])
        k++;
    return k == n && !o->name[n];
}

/* "-zero 3": getopt would take the letters one by one, and the first may be an option. */
static enum lw_status refuse_one_dash(const struct lw_opt *table, int argc, char **argv,
                                      struct lw_err *err)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *word = argv[i] + 1;
        size_t n = strcspn(word, "=");
        if (argv[i][0] != '-' || n < 2 || word[0] == '-')
            continue;
        for (const struct lw_opt *o = table; o->name; o++)
            if (is_named(o, word, n))
                return lw_fail(err, LW_EINVAL, "option '%s' has one dash, expected two: '--%s%s'",
                               argv[i], o->name, word + n);
    }
    return LW_OK;
}

/* The word with the option that getopt does not know; of several letters it is not yet over. */
static const char *unknown_word(int argc, char **argv)
{
    const char *what = optind > 0 ? argv[optind - 1] : "";
    bool here = what[0] == '-' && (what[1] == '-' || strchr(what, optopt));

    return optopt == 0 || here || optind >= argc ? what : argv[optind];
}

/* "--name: " before a message that does not begin with it. */
static enum lw_status name_option(const struct lw_opt *o, enum lw_status st, struct lw_err *err)
{
    size_t n = strlen(o->name);

    if (st != LW_OK && err && strncmp(err->msg, "--", 2) == 0 &&
        strncmp(err->msg + 2, o->name, n) == 0 && strchr(": ", err->msg[2 + n]))
        return st;
    return lw_err_context(err, st, "--%s", o->name);
}

/* A database that is neither written nor read; --run reads a plan from it. */
static enum lw_status refuse_idle_database(bool db, bool no_db, bool run, struct lw_err *err)
{
    return db && no_db && !run
               ? lw_fail(err, LW_EINVAL,
                         "--db names a database and --no-db uses none: leave one out")
               : LW_OK;
}

static bool is_given(const struct lw_opt *table, const bool *given, const char *name)
{
    for (int i = 0; name && table[i].name; i++)
        if (given[i] && strcmp(table[i].name, name) == 0)
            return true;
    return false;
}

/* Options that would change nothing. */
static enum lw_status refuse_idle(const struct lw_opt *table, const bool *given, struct lw_err *err)
{
    for (int i = 0; table[i].name; i++) {
        const struct lw_opt *o = &table[i];
        if (given[i] && o->needs && !is_given(table, given, o->needs))
            return lw_fail(err, LW_EINVAL, "--%s changes nothing without --%s", o->name, o->needs);
        if (given[i] && is_given(table, given, o->idle_with))
            return lw_fail(err, LW_EINVAL, "--%s changes nothing with --%s: leave one out",
                           o->name, o->idle_with);
    }
    return LW_OK;
}

int lw_cli_refuse_beside(const struct lw_usage *u, const struct lw_opt *table, const char *beside,
                         int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        for (const struct lw_opt *o = table; o->name; o++)
            if (o->idle_with && strcmp(o->idle_with, beside) == 0 &&
                is_named(o, argv[i] + 2, strcspn(argv[i] + 2, "=")))
                return lw_cli_usage(u->command, "--%s changes nothing with --%s: leave one out",
                                    o->name, beside);
    }
    return -1;
}

enum lw_status lw_cli_parse(const struct lw_opt *table, int argc, char **argv, int *n_operands,
                            bool *help, struct lw_err *err)
{
    struct spec spec;
    bool given[MAX_OPTIONS] = {false};
    int c;

    look_for_json(argc, argv);
    make_spec(table, &spec);
    dashes_for_underscores(argc, argv);
    LW_TRY(refuse_one_dash(table, argc, argv, err));
    optind = 0; /* GNU: scan again */
    *help = false;
    while ((c = getopt_long(argc, argv, spec.shorts, spec.longs, NULL)) != -1) {
        if (c == HELP_ID || c == 'h') {
            *help = true;
            return LW_OK;
        }
        const struct lw_opt *o = option_of(table, spec.n, c == ':' ? optopt : c);
        if (c == '?' || (c == ':' && !(o && is_switch(o)))) {
            const char *what = c == ':' ? argv[optind - 1] : unknown_word(argc, argv);
            return c == ':' ? lw_fail(err, LW_EINVAL, "option '%s' needs a value", what)
                            : unknown_option(table, what, err);
        }
        const char *word = argv[optind - (optarg && optarg == argv[optind - 1] ? 2 : 1)];
        if (c >= FIRST_LONG && !is_whole_name(word, o->name))
            return unknown_option(table, word, err);
        const char *value = is_switch(o) ? switch_value(argv, c == ':') : optarg;
        LW_TRY(name_option(o, lw_cli_set(o, value, err), err));
        given[o - table] = true;
    }
    LW_TRY(refuse_idle_database(is_given(table, given, "db"), is_given(table, given, "no-db"),
                                is_given(table, given, "run"), err));
    LW_TRY(refuse_idle(table, given, err));
    *n_operands = argc - optind;
    memmove(argv + 1, argv + optind, (size_t)*n_operands * sizeof *argv);
    return LW_OK;
}

/* For people; print_failure is for programs. */
static void put_error(const char *command, const char *text)
{
    char before[64];

    fflush(stdout);
    snprintf(before, sizeof before, "lapwing%s%.40s: ", command ? " " : "", command ? command : "");
    lw_put_paragraph(stderr, before, text);
}

/* "lapwing COMMAND: message" to stderr, and with --format json an object with status and error to
 * stdout, unless something was printed there; the exit status that goes with the code. */
static int fail(const char *command, const struct lw_err *err)
{
    put_error(command, err->msg);
    print_failure(command, err->msg, err->code);
    return exit_of(err->code);
}

/* An operand that names no file, but an option of the command. */
static bool is_option_name(const struct lw_opt *table, const char *word)
{
    for (; table->name; table++)
        if (strcmp(table->name, word) == 0)
            return access(word, F_OK) != 0;
    return false;
}

static int check_operands(const struct lw_usage *u, const struct lw_opt *table, char **argv,
                          int n_operands)
{
    struct lw_err err = {0};

    for (int i = 1; i <= n_operands; i++)
        if (is_option_name(table, argv[i]))
            return lw_cli_usage(u->command, "unexpected '%s' (did you mean '--%s'?)", argv[i],
                                argv[i]);
    if (n_operands < u->min_operands)
        return lw_cli_usage(u->command, "needs %s", u->synopsis);
    if (u->max_operands >= 0 && n_operands > u->max_operands)
        return lw_cli_usage(u->command, "unexpected '%s'", argv[u->max_operands + 1]);
    for (int i = 1; u->max_operands < 0 && i <= n_operands; i++) /* before one result is printed */
        if (lw_used_file(argv[i], LW_USE_INPUT, &err) != LW_OK)
            return fail(u->command, &err);
    return -1;
}

int lw_cli_begin(const struct lw_usage *u, const struct lw_opt *table, int argc, char **argv,
                 int *n_operands)
{
    enum lw_status s = LW_OK;
    struct lw_err err = {0};
    bool help = false;

    if (argc == 2 && strcmp(argv[1], "--help-man") == 0)
        lw_cli_help_man(stdout, u, table);
    else if (argc == 2 && strcmp(argv[1], "--help-words") == 0)
        lw_cli_help_words(stdout, table);
    else if (argc == 2 && strcmp(argv[1], "--help-json") == 0)
        lw_cli_help_json(stdout, u, table);
    else if (argc == 2 && strcmp(argv[1], "--help-csv") == 0)
        s = lw_cli_help_csv(stdout, table, &err);
    else if (lw_cli_parse(table, argc, argv, n_operands, &help, &err) != LW_OK)
        return lw_cli_usage(u->command, "%s", err.msg);
    else if (help)
        lw_cli_help_text(stdout, u, table);
    else
        return check_operands(u, table, argv, *n_operands);
    return lw_cli_end(u->command, s, &err);
}

int lw_cli_usage(const char *command, const char *fmt, ...)
{
    char raw[1024], shown[1024], text[1100];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    snprintf(text, sizeof text, "%s; see 'lapwing help %.40s'",
             lw_shown_text(shown, sizeof shown, raw), command);
    put_error(command, text);
    print_failure(command, shown, LW_EUSAGE);
    return LW_EXIT_USAGE;
}

int lw_cli_no_command(int argc, char **argv, const char *hint)
{
    char raw[512], shown[512], text[600];

    look_for_json(argc, argv);
    snprintf(raw, sizeof raw, "no command '%.128s'%s", argv[1], hint);
    snprintf(text, sizeof text, "%s; see 'lapwing help'", lw_shown_text(shown, sizeof shown, raw));
    put_error(NULL, text);
    print_failure(NULL, shown, LW_EUSAGE);
    return LW_EXIT_USAGE;
}

int lw_cli_end(const char *command, enum lw_status status, struct lw_err *err)
{
    if (status == LW_OK)
        status = lw_stdout_close(err);
    return status == LW_OK ? LW_EXIT_OK : fail(command, err);
}

char *lw_cli_join(int argc, char **argv, char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = '\0';
    for (int i = 0; i < argc && n + 1 < size; i++) {
        int k = snprintf(buf + n, size - n, "%s%s", i > 0 ? " " : "", argv[i]);
        n += k > 0 ? (size_t)k : 0;
    }
    return buf;
}
