#pragma once

#include <stdbool.h>
#include <stdint.h>

/* `words` are in `text`, or not; a failure shows the end of the text. */
void has(const char *text, const char *words);
void has_not(const char *text, const char *words);
int32_t count_words(const char *text, const char *words); /* how often they are */
double number_after(const char *text, const char *key); /* which must be there */
/* One of the n notes of a plan or workload has the words. */
bool notes_say(const char *const *notes, int32_t n, const char *words);
