/* Arbitrary bytes as a gzip or plain input file, through lw_input_read, and salvaged: what is read
 * strictly must be the same. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct lw_input in, salvaged;
    struct lw_err err, damage;
    int fd = memfd_create("fuzz", 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool whole = lw_input_read(path, 1 << 24, &in, &err) == LW_OK;
    const struct lw_input_reading broken = {.max_bytes = 1 << 24, .damage = &damage};
    if (lw_input_read_as(path, &broken, &salvaged, &err) == LW_OK) {
        if (whole && (damage.code != LW_OK || salvaged.len != in.len ||
                      memcmp(salvaged.text, in.text, in.len) != 0))
            abort();
        if (!whole && damage.code == LW_OK)
            abort();
        lw_input_free(&salvaged);
    } else if (whole) {
        abort();
    }
    if (whole)
        lw_input_free(&in);
    if (lw_alloc_live() != 0)
        abort();
    close(fd);
    return 0;
}
