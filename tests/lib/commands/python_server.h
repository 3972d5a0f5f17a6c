#pragma once

/* The programs of tests/evidence, as `python3 $P/tests/evidence/WORDS` runs them in the folder of
 * file_fixture.h, but for the interpreter's start and the compilation of the modules: one process
 * has these done and forks for each program. $L is the
 * program and $P the project, as in command_fixture.h; blanks separate the words. */

/* What the program wrote, standard output and after it standard error; until the next call. *rc:
 * the exit status; NULL: it must be 0. */
const char *python(const char *words, int *rc);
const char *pythonf(const char *words, ...) __attribute__((format(printf, 1, 2)));

/* teardown: ends the process, where there is one, and then as fixture_close. */
int python_close(void **state);
