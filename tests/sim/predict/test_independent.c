/* Random plans by the program and by a second simulator, which was written from the documents alone
 * (tests/independent): all spans are equal to the picosecond. LAPWING_MANY=1: many more plans. */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_WITH(random_plans_are_the_same_in_an_independent_simulator, fixture_open, fixture_close)
{
    bool many = getenv("LAPWING_MANY") != NULL;

    has(shell(many ? "LAPWING=$L PYTHONDONTWRITEBYTECODE=1 python3 "
                     "$P/tests/independent/random_plans.py 400 20260101"
                   : "LAPWING=$L PYTHONDONTWRITEBYTECODE=1 python3 "
                     "$P/tests/independent/random_plans.py 12 20260101",
              NULL),
        many ? "400 passed, 0 failed" : "12 passed, 0 failed");
}
