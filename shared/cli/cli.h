#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/io/own_output.h"
#include "shared/text/records.h"

/* Exit statuses of the program. Wrong usage is what the command line alone shows, whatever files,
 * models and machines it names: an option that does not exist, is missing or excludes another one,
 * and a value that the option never takes. Values that cannot be had together, or not with a file,
 * a model or this machine, are LW_EXIT_COULD_NOT. */
enum lw_exit {
    LW_EXIT_OK = 0,
    LW_EXIT_COULD_NOT = 1, /* bad input, no memory, no file, a run that failed */
    LW_EXIT_USAGE = 2,
    LW_EXIT_NO = 3,        /* it ran, and the answer is no */
    LW_EXIT_LOAD = 4,      /* it was measured beside other programs, and is no answer */
};

enum lw_opt_kind {
    LW_OPT_FLAG,   /* bool *: set to true */
    LW_OPT_STRING, /* const char **: points into argv */
    LW_OPT_INT,    /* int64_t *: whole number in [min, max] */
    LW_OPT_SIZE,   /* int64_t *: bytes in [min, max], shared/numbers/units.h */
    LW_OPT_TIME,   /* lw_ps * */
    LW_OPT_DOUBLE, /* double *: in [min, max] */
    LW_OPT_FORMAT, /* enum lw_format * */
    LW_OPT_CALL,   /* struct lw_opt_call *: for options that a shared part owns */
};

/* A handler for option families declared once (the strategy, for example). */
struct lw_opt_call {
    enum lw_status (*set)(void *ctx, const char *name, const char *value, struct lw_err *err);
    void *ctx;
};

/* Whether an option takes a value, whatever else is given: the message says what is allowed. */
typedef enum lw_status lw_opt_check(const char *value, struct lw_err *err);

struct lw_opt {
    const char *name;     /* long name without "--"; '_' is accepted for '-' */
    char letter;          /* short name, or 0 */
    enum lw_opt_kind kind;
    void *value;          /* by kind, see above */
    /* "N", ... for the help; NULL for flags. Words ("gemm|spin", "loop") are the only values. A
     * LW_OPT_STRING with neither words nor a check takes names and texts of the user, and its arg
     * is one of lw_cli_takes_any. */
    const char *arg;
    const char *help;     /* one line, with the default; NULL: an old name, which help leaves out */
    int64_t min, max;     /* LW_OPT_INT, _SIZE, _DOUBLE: allowed range (max 0 = no limit) */
    lw_opt_check *check;  /* NULL, or tried before the value is set */
    /* Other options of the table: without the one, or beside the other, this one would change
     * nothing, and is refused. NULL = none. */
    const char *needs, *idle_with;
};

/* The arg of options whose values are the user's own: files, names that may be files, texts. */
bool lw_cli_takes_any(const char *arg);
/* A check of numbers: 0 is refused. */
lw_opt_check lw_cli_above_0;
/* Of a stored run: a number, or 'last'. */
lw_opt_check lw_cli_run;
lw_opt_check lw_cli_search; /* of a stored search */

/* The options that recur, declared once: they mean the same in every command. */
#define LW_OPTION_FORMAT(format) \
    {"format", 0, LW_OPT_FORMAT, (format), "text|json|csv", "output format (text)"}
#define LW_OPTION_DB(path) \
    {"db", 0, LW_OPT_STRING, (path), "FILE", "results database (lapwing.db)"}
#define LW_OPTION_FORCE \
    {"force", 0, LW_OPT_FLAG, lw_force_option(), NULL, \
     "replace a file that lapwing did not write, or that was changed since"}
#define LW_OPTION_QUIET(flag) {"quiet", 'q', LW_OPT_FLAG, (flag), NULL, "no progress"}
/* Those of a command whose runs are stored, in order. */
#define LW_OPTIONS_OF_RUNS(s)                                                                    \
    LW_OPTION_DB(&(s).db),                                                                       \
    {"name", 0, LW_OPT_STRING, &(s).name, "TEXT",                                                \
     "what to call the run (made from its options)", .idle_with = "no-db"},                      \
    LW_OPTION_QUIET(&(s).quiet),                                                                 \
    {"no-db", 0, LW_OPT_FLAG, &(s).no_db, NULL, "store nothing"}, LW_OPTION_FORMAT(&(s).format)

/* Parse argv[1..] of a subcommand with one table (ends with name == NULL). What is not an option is
 * moved to argv[1..*n_operands], in order; "--" ends the options, "-" is an operand.
 * LW_EINVAL names the option and what it takes. "--help" sets *help (the caller then prints). */
enum lw_status lw_cli_parse(const struct lw_opt *table, int argc, char **argv, int *n_operands,
                            bool *help, struct lw_err *err);

/* One option by its text, as a command line gives it; a flag takes no text. LW_EINVAL: the message
 * does not name the option. */
enum lw_status lw_cli_set(const struct lw_opt *o, const char *text, struct lw_err *err);

/* Before anything else in main: a full disk or a reader that goes away becomes an error of the
 * write that met it, with one line and no partial file, instead of a signal's death. */
void lw_cli_signals(void);

/* What every command does in the same way: parse, "--help" (usage line, one paragraph, options),
 * and errors to stderr. Returns -1 to go on, else the exit status to return at once. */
struct lw_usage {
    const char *command, *synopsis, *about;
    int min_operands, max_operands; /* max -1 = any number */
};
int lw_cli_begin(const struct lw_usage *u, const struct lw_opt *table, int argc, char **argv,
                 int *n_operands);

/* Where an option turns a command into another, with a table of its own, and is taken out of the
 * words: refuses those of `table` that are idle with it. -1 to go on, else the exit status. */
int lw_cli_refuse_beside(const struct lw_usage *u, const struct lw_opt *table, const char *beside,
                         int argc, char **argv);

/* The command line as it was typed (words joined by blanks, cut at size); call it before
 * lw_cli_begin, which moves operands. Returns buf. */
char *lw_cli_join(int argc, char **argv, char *buf, size_t size);

/* Wrong usage: "lapwing COMMAND: message", with a hint at "lapwing help COMMAND", to stderr, and
 * with --format json an object with status and error to stdout, unless something was printed there;
 * the exit status. */
int lw_cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a first word, argv[1], that names no command; hint: "" or the nearest one. */
int lw_cli_no_command(int argc, char **argv, const char *hint);

/* No such object from here on: another process of the same run prints it. */
void lw_cli_no_json(void);

/* Check standard output and turn the status of the command's work into its exit status; an error is
 * printed as wrong usage is, without the hint. */
int lw_cli_end(const char *command, enum lw_status status, struct lw_err *err);
