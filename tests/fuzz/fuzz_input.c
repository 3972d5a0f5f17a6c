/* Arbitrary bytes as a gzip or plain input file, through lw_input_read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mman.h>

#include "shared/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct lw_input in;
    struct lw_err err;
    int fd = memfd_create("fuzz", 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (lw_input_read(path, 1 << 24, &in, &err) == LW_OK)
        lw_input_free(&in);
    close(fd);
    return 0;
}
