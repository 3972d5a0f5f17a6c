/* Inputs that were once answered wrongly (../shared/cases/inputs): each is answered right. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

#define INPUTS "../shared/cases/inputs/"

static const struct {
    const char *file, *args, *says;
} refused[] = {
    {"calls_span_213_days.rank0.csv", "import '$F' --cluster-out c.json",
     "calls_span_213_days.rank0.csv:11: the span is too long: 213.5 days"},
    {"calls_span_213_days.rank0.csv", "inspect '$F'",
     "calls_span_213_days.rank0.csv:11: the span is too long: 213.5 days"},
    {"hf_tie_1.json", "model '$F'",
     "hf_tie_1.json: tie_word_embeddings: found 1, expected true or false"},
    {"h_attention_bias_1.json", "model '$F'",
     "h_attention_bias_1.json: attention_bias: found 1, expected true or false"},
    {"nosteps.json", "import '$F' --step 5 -o o.json",
     "nosteps.json: --step 5: this trace has no ProfilerStep"},
};

TEST_WITH(inputs_once_answered_wrongly_are_refused, fixture_open, fixture_close)
{
    if (access(INPUTS, F_OK) != 0) {
        printf("SKIP inputs_once_answered_wrongly_are_refused: no " INPUTS "\n");
        skip();
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *place = strstr(refused[i].args, "$F");
        char args[512];
        snprintf(args, sizeof args, "%.*s$P/" INPUTS "%s%s", (int)(place - 1 - refused[i].args),
                 refused[i].args, refused[i].file, place + 3);
        expect(args, 1, refused[i].says);
    }
}
