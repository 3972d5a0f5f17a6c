/* libFuzzer entry for dumps of the Flight Recorder, as JSON and as pickles, and logs of NCCL;
 * tests/traces/collectives/test_coll_log.c damages recorded ones without it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "traces/collectives/coll_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(struct coll_log *l)
{
    const struct coll_log *two[] = {l, l};
    FILE *f = fopen("/dev/null", "w");
    struct lw_err err;

    if (f) {
        (void)coll_mismatches_text(two, 2, f, &err);
        fclose(f);
    }
    coll_log_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(size + LW_JSON_PADDING, 1);
    struct lw_input in = {.name = "fuzz", .text = text, .len = size};
    struct coll_log l;
    struct lw_err err = {0};

    if (!text)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    if (coll_log_read_recorder(&in, &l, &err) == LW_OK)
        compare(&l);
    if (coll_log_read_nccl(&in, &l, &err) == LW_OK)
        compare(&l);
    free(text);
    if (lw_alloc_live() != 0)
        abort();
    return 0;
}
