/* What the torture program does to inputs: each damage does what its name says. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "tests/lib/files/damaged_text.h"

enum { ROOM = 256, TRIES = 2000 };

static uint64_t state_of_draws;

static uint64_t draw(uint64_t below)
{
    state_of_draws = state_of_draws * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state_of_draws >> 33) % below;
}

/* One of many tries makes `want` of the text; all stay in the room. */
static void expect_made(enum damage how, const char *from, const char *want)
{
    bool made = false;

    state_of_draws = 1;
    for (int k = 0; k < TRIES; k++) {
        char text[ROOM + 1];
        memcpy(text, from, strlen(from));
        text[ROOM] = '!';
        size_t n = damage_text(how, text, strlen(from), ROOM, draw);
        assert_true(n <= ROOM);
        assert_int_equal(text[ROOM], '!');
        made |= n == strlen(want) && memcmp(text, want, n) == 0;
    }
    if (!made)
        fail_msg("%s: no try in %d makes '%s' of '%s'", damage_name(how), TRIES, want, from);
}

TEST(lists_objects_lines_and_cells_become_empty)
{
    static const char json[] = "{\"a\": [1, {\"b\": \"]\"}], \"c\": [2]}";
    static const char rows[] = "# head\ncall,1,all\nspan,1,2\ncall,2,all\n";

    expect_made(DAMAGE_EMPTY_LIST, json, "{\"a\": [], \"c\": [2]}");
    expect_made(DAMAGE_EMPTY_LIST, json, "{\"a\": [1, {}], \"c\": [2]}");
    expect_made(DAMAGE_EMPTY_LIST, json, "{\"a\": [1, {\"b\": \"]\"}], \"c\": []}");
    expect_made(DAMAGE_EMPTY_LIST, json, "{}");
    expect_made(DAMAGE_EMPTY_LIST, rows, "# head\nspan,1,2\n");
    expect_made(DAMAGE_EMPTY_LIST, rows, "# head\n");
    expect_made(DAMAGE_EMPTY_LIST, rows, "# head\ncall,1,all\nspan,1,2\ncall,,all\n");
}

TEST(numbers_come_to_their_limits)
{
    static const char json[] = "{\"a\": -1.5, \"b\": 20}";

    expect_made(DAMAGE_OVERFLOW, json, "{\"a\": 18446744073709936, \"b\": 20}");
    expect_made(DAMAGE_OVERFLOW, json, "{\"a\": -1.5, \"b\": 9223372036854775808}");
    expect_made(DAMAGE_OVERFLOW, "20", "-9223372036854775808");
}

TEST(an_empty_text_stays_empty_and_a_full_room_is_kept)
{
    for (int how = 0; how < N_DAMAGES; how++) {
        char text[2] = "1";
        assert_int_equal(damage_text((enum damage)how, text, 0, 1, draw), 0);
        assert_true(damage_text((enum damage)how, text, 1, 1, draw) <= 1);
    }
}
