#pragma once

#include <stddef.h>
#include <stdint.h>

/* For tests that read and write files: a folder of their own, whole texts, and the examples of
 * docs/formats. Texts belong to the caller (free); every failure stops the test. */
int fixture_open(void **state);  /* setup: make the folder */
/* teardown: remove it; fails when a temporary file was left in it */
int fixture_close(void **state);
const char *fixture_path(const char *name); /* FOLDER/name; valid until the next call but three */

void fixture_put(const char *path, const char *text);
char *fixture_get(const char *path);
char *fixture_written(const char *path);     /* a file of Lapwing's without its content_hash */
char *fixture_example(const char *markdown); /* its first block of JSON */
/* Each file of a folder, unpacked, in memory of its own size, to a fuzzer's target; how many there
 * are. */
int fixture_corpus(const char *corpus, int (*target)(const uint8_t *data, size_t size));
/* A copy with the first occurrence of `from` (which must be there) replaced. */
char *fixture_replaced(const char *text, const char *from, const char *to);
