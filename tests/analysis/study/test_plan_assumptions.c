/* What a workload assumes or leaves out is said of its plan too: where the plan is shown, and where
 * its file or the stored run is predicted without the workload. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

/* The array "workload_assumptions" of a prediction, as it is printed. */
static char *assumptions(const char *command)
{
    const char *text = lapwing(command, NULL), *at = strstr(text, "\"workload_assumptions\": [");

    assert_non_null(at);
    size_t n = strcspn(at, "]");
    char *out = malloc(n + 1);
    memcpy(out, at, n);
    out[n] = '\0';
    return out;
}

TEST(file_and_stored_run_say_what_the_workload_says)
{
    static const struct {
        const char *job, *says;
    } cases[] = {
        {"-w llama-2-7b --layers 4 -c mi300x --tp 2", "workspaces of libraries on MI300X are not"},
        {"-w nemotron-h-8b --layers 8 -c dgx-h100 --dp 2", "the first 8 of the 52 layers"},
        {"-w llama-2-7b --layers 4 -c dgx-h100 --tp 2 --recompute selective",
         "--recompute selective changes nothing"},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char command[256];
        snprintf(command, sizeof command, "rm -f p.json r.db && $L plan %s -o p.json >plan && "
                 "$L sim %s --db r.db >log", cases[k].job, cases[k].job);
        shell(command, NULL);
        has(shell("cat plan", NULL), cases[k].says);
        snprintf(command, sizeof command, "sim %s --no-db --format json", cases[k].job);
        char *of_model = assumptions(command);
        snprintf(command, sizeof command, "sim p.json %s --no-db --format json",
                 strstr(cases[k].job, "-c mi300x") ? "-c mi300x" : "-c dgx-h100");
        char *of_file = assumptions(command);
        char *of_run = assumptions("sim --run 1 --db r.db --no-db --format json");
        has(of_model, cases[k].says);
        assert_int_equal(count_words(of_model, cases[k].says), 1);
        assert_string_equal(of_file, of_model);
        assert_string_equal(of_run, of_model);
        free(of_model);
        free(of_file);
        free(of_run);
    }
}
