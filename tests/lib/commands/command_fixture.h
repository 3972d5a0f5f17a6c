#pragma once

/* The program as a user runs it: a shell's words in the folder of file_fixture.h, with $L the
 * program ($LAPWING, else build/lapwing), $P the project and $R its recordings. */

/* What the words wrote, standard output and after it standard error; until the next call. *rc: the
 * exit status, -1 where a signal ended it; NULL: it must be 0. */
const char *shell(const char *words, int *rc);
const char *lapwing(const char *args, int *rc); /* "lapwing ARGS" */
const char *shell_err(void);                      /* of the last: its standard error alone */
/* "lapwing ARGS" exits with rc and says so; prose may be broken at blanks into lines. */
void expect(const char *args, int rc, const char *says);
/* The same with arguments as printf writes them; lapwingf: what it wrote, and its exit status is
 * 0. */
void expectf(int rc, const char *says, const char *args, ...) __attribute__((format(printf, 3, 4)));
const char *lapwingf(const char *args, ...) __attribute__((format(printf, 1, 2)));
const char *shellf(const char *words, ...) __attribute__((format(printf, 1, 2)));

/* `file`: the workload of `lapwing model ARGS` as a recording has it: its times stay, and nothing
 * says what model they are of. */
void recording_of_model(const char *args, const char *file);

/* A row of a table of cases: "lapwing COMMAND ARGS", run once, exits with rc, says these words and
 * lacks those. */
struct command_case {
    const char *args;
    int rc;
    const char *says, *also[7], *lacks;
};
#define EXPECT(command, ...) expect_cases(command, (const struct command_case[]){__VA_ARGS__, {0}})
void expect_cases(const char *command, const struct command_case *cases);
