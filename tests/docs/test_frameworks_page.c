/* docs/design/frameworks.md and docs/formats/framework.md say what the program has. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/files/files.h"
#include "tests/lib/files/file_fixture.h"

TEST(the_pages_tables_have_every_framework_and_fact)
{
    char *page = fixture_get("docs/design/frameworks.md"), name[64], cell[128];
    struct lw_framework f = {0};
    struct lw_framework_fact fact;

    for (int k = 0; lw_framework_known(k, name); k++) {
        snprintf(cell, sizeof cell, "| %s", name);
        char *list = strstr(page, "## Known frameworks"), *table = strstr(page, "<!-- table -->");
        assert_non_null(list);
        assert_non_null(table);
        snprintf(cell, sizeof cell, " %s |", name);
        if (!strstr(table, cell))
            fail_msg("run traces/frameworks/table.py: no column of %s", name);
        if (!strstr(list, name) || strstr(list, name) > table)
            fail_msg("the list of known frameworks lacks %s", name);
    }
    for (int k = 0; lw_framework_fact(&f, k, &fact); k++) {
        snprintf(cell, sizeof cell, "| %s.%s |", fact.group, fact.name);
        if (!strstr(page, cell))
            fail_msg("run traces/frameworks/table.py: no row of %s", cell);
    }
    free(page);
}

TEST(the_formats_example_is_read_and_written)
{
    char *example = fixture_example("docs/formats/framework.md");
    struct lw_framework f, again;
    struct lw_err err = {0};
    char a[33], b[33];

    fixture_put(fixture_path("f.json"), example);
    assert_ok(lw_framework_read(fixture_path("f.json"), &f, &err), err);
    assert_ok(lw_framework_write(&f, fixture_path("g.json"), &err), err);
    assert_ok(lw_framework_read(fixture_path("g.json"), &again, &err), err);
    assert_ok(lw_framework_hash(&f, a, &err), err);
    assert_ok(lw_framework_hash(&again, b, &err), err);
    assert_string_equal(a, b);
    assert_int_equal(f.n_usual, 3);
    lw_framework_free(&f);
    lw_framework_free(&again);
    free(example);
}

TEST_GROUP(fixture_open, fixture_close)
