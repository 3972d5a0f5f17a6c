/* Words in messages, which prose may break at blanks into lines. */
#include "tests/lib/files/says.h"

#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

/* Whether words are here, where a blank may be a line end with blanks after it. */
static bool begins_broken(const char *text, const char *words)
{
    for (; *words && (*text == *words || (*words == ' ' && *text == '\n')); words++)
        text += *words == ' ' && *text == '\n' ? 1 + strspn(text + 1, " ") : 1;
    return !*words;
}

bool text_says(const char *text, const char *words)
{
    bool there = strstr(text, words) != NULL;

    for (; *text && !there; text++)
        there = begins_broken(text, words);
    return there;
}

bool is_one_message(const char *text)
{
    while ((text = strchr(text, '\n')) != NULL && strncmp(++text, "  ", 2) == 0)
        ;
    return text && !*text;
}

static void expect_words(const char *text, const char *words, bool there)
{
    size_t n = strlen(text);

    if (text_says(text, words) != there)
        fail_msg("'%s' is%s in:%s", words, there ? " not" : "", text + (n > 700 ? n - 700 : 0));
}

void has(const char *text, const char *words)
{
    expect_words(text, words, true);
}

void has_not(const char *text, const char *words)
{
    expect_words(text, words, false);
}

int32_t count_words(const char *text, const char *words)
{
    int32_t n = 0;

    for (; (text = strstr(text, words)) != NULL; text += strlen(words))
        n++;
    return n;
}

double number_after(const char *text, const char *key)
{
    has(text, key);
    return strtod(strstr(text, key) + strlen(key), NULL);
}

bool notes_say(const char *const *notes, int32_t n, const char *words)
{
    for (int32_t i = 0; i < n; i++)
        if (strstr(notes[i], words))
            return true;
    return false;
}
