#pragma once

/* What may leave the program where others wrote the texts that it shows: nothing is executed, no
 * control byte and no invalid UTF-8 leaves, JSON stays strict and HTML stays nested. The texts say
 * `touch pwned` in one way or another. Every failure stops the test. */

/* "lapwing ARGS" in the folder of file_fixture.h ends by itself, and all of this holds of what it
 * writes; its exit status. */
int hostile_run(const char *args);
void hostile_run_each(const char *const *args); /* NULL-ended */

void hostile_bytes(const char *text, const char *whence);
void hostile_json(const char *text, const char *whence);
void hostile_html(const char *text);
