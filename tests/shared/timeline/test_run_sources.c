/* How real an execution was: the stored words, and what is printed of them. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/timeline/run_sources.h"

TEST(words_say_where_compute_and_network_come_from)
{
    static const struct {
        const char *text, *compute, *network, *last;
    } cases[] = {
        {"real", "real", "real", "real"},
        {"spin", "spin", "real", "spin"},
        {"sleep", "sleep", "real", "sleep"},
        {"emulated", "emulated", "emulated", "emulated"},
        {"real, paced", "real", "paced", "paced"},
        {"sleep, paced", "sleep", "paced", "paced"},
        {"spin, emulated", "spin", "emulated", "emulated"},
        {"paced", "", "paced", "paced"}, /* of an older version: the compute is not known */
        {"", "", "", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_run_sources s = lw_run_sources_of(cases[i].text);
        assert_string_equal(s.compute, cases[i].compute);
        assert_string_equal(s.network, cases[i].network);
        assert_string_equal(s.last, cases[i].last);
    }
    assert_string_equal(lw_run_sources_of(NULL).network, "");
}

TEST(the_last_word_and_the_compute_make_the_text)
{
    static const struct {
        const char *by_clock, *last, *text;
    } cases[] = {
        {NULL, "real", "real"},          {NULL, "paced", "real, paced"},
        {NULL, "emulated", "emulated"},  {"sleep", "sleep", "sleep"},
        {"spin", "paced", "spin, paced"}, {"sleep", "emulated", "sleep, emulated"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[LW_RUN_SOURCES];
        assert_string_equal(lw_run_sources_text(text, cases[i].by_clock, cases[i].last),
                            cases[i].text);
    }
}
