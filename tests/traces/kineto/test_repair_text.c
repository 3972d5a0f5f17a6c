/* Names as profilers write them (with_stack, Windows paths), made JSON again in place. */
#include "tests/lib/unit.h"
#include <string.h>

#include "traces/kineto/repair_text.h"

static void becomes(const char *text, const char *want, int64_t n)
{
    char copy[512];

    strcpy(copy, text);
    assert_int_equal(traces_repair_text(copy, strlen(copy)), n);
    assert_string_equal(copy, want);
}

TEST(names_are_mended_and_json_is_not_changed)
{
    static const char json[] =
        "{\"name\": \"a \\\"b\\\" \\u00e4 \\\\\", \"args\": {\"x\": [\"1\", 2]}}";

    becomes(json, json, 0);
    becomes("{\"name\":\"a\nb\tc\",\"pid\":1}", "{\"name\":\"a b c\",\"pid\":1}", 2);
    becomes("{\"name\":\"C:\\dir\",\"pid\":1}", "{\"name\":\"C:/dir\",\"pid\":1}", 1);
    becomes("{\"name\":\"C:\\dir\\\",\"pid\":1}", "{\"name\":\"C:/dir/\",\"pid\":1}", 2);
    becomes("{\"name\":\"f(\"_x\", \"I\")\",\"pid\":1}",
            "{\"name\":\"f('_x', 'I')\",\"pid\":1}", 4);
    becomes("{\"name\":\"f\"{x}\"\"}", "{\"name\":\"f'{x}'\"}", 2);
    becomes("{\"name\":\"\\u00g0\"}", "{\"name\":\"/u00g0\"}", 1);
}

/* What is broken otherwise stays broken: other values end at their quote, a cut text as it is. */
TEST(other_damage_is_left)
{
    static const char *const texts[] = {"{\"ph\":\"X\",}", "{\"ph\":\"X\" \"ts\":1}",
                                        "{\"name\":\"cut of", "{\"name\":\"a\",\"b\":\"", ""};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        becomes(texts[i], texts[i], 0);
}
