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
