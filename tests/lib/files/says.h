#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether the words are there, as they are or broken at blanks into lines; and whether the text is
 * one message: a line, and lines that go on with it. */
bool text_says(const char *text, const char *words);
bool is_one_message(const char *text);
/* `words` are in `text`, or not; a failure shows the end of the text. */
void has(const char *text, const char *words);
void has_not(const char *text, const char *words);
int32_t count_words(const char *text, const char *words); /* how often they are */
double number_after(const char *text, const char *key); /* which must be there */
/* One of the n notes of a plan or workload has the words. */
bool notes_say(const char *const *notes, int32_t n, const char *words);
