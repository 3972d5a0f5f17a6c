#pragma once

#include <stdint.h>

/* A database file, read and changed with SQLite itself; any error fails the test. */
void sql_do(const char *file, const char *sql);
int64_t sql_ask(const char *file, const char *sql); /* the first column of the first row */
