/* What `sim` says of recomputation. */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

TEST_GROUP(fixture_open, fixture_close)

static bool says_nothing_changes(const char *options)
{
    char words[300];

    snprintf(words, sizeof words,
             "$L sim -w gpt-125m -c dgx-h100 --dp 8 --no-db -q %s | tr '\\n' ' '", options);
    return strstr(shell(words, NULL), "--recompute selective changes nothing") != NULL;
}

/* Fused attention keeps no scores: there is nothing to compute again. */
TEST(selective_without_stored_scores_says_that_it_changes_nothing)
{
    assert_true(says_nothing_changes("--recompute selective --attention flash"));
    assert_false(says_nothing_changes("--recompute selective --attention full"));
    assert_false(says_nothing_changes("--recompute full --attention flash"));
    assert_false(says_nothing_changes("--attention flash"));
}
