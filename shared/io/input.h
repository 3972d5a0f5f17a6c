#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

/* A whole input file in memory (one of 64 MiB or more mapped, shared/io/mapped_file.h), with
 * LW_JSON_PADDING zero bytes after text[len]. gzip is found by its content and unpacked (checksums
 * verified). "-" is standard input. */
struct lw_input {
    const char *name; /* as the user wrote it; borrowed */
    char *text;
    size_t len;
    bool mapped;      /* text is the file itself: pages that are given back are read again */
    char hash[33];    /* XXH3-128 of the bytes as stored, in hex; "" where it is not asked for */
};

/* A folder that is there. */
bool lw_is_folder(const char *path);
/* Neither a file nor a folder: it cannot be read twice, nor renamed over. */
bool lw_is_device_or_pipe(const char *path);

/* LW_EIO: absent, unreadable, a device, larger than max_bytes (0 = no limit) or than the memory
 * that is left, a pipe of more than 256 MiB, or gzip that unpacks to more than 64 MiB and 100 times
 * its size. LW_EFORMAT: bad gzip. */
enum lw_status lw_input_read(const char *name, size_t max_bytes, struct lw_input *in,
                             struct lw_err *err);
/* The same in other ways; zeroed = as lw_input_read without a limit. */
struct lw_input_reading {
    size_t max_bytes;
    struct lw_err *damage; /* of damaged or truncated gzip data what unpacks before the damage is
                            * kept, and this says where it ends and why (code LW_OK: the file is
                            * whole); NULL: that is an error */
    bool unhashed;         /* the hash, a pass over all bytes, is left out */
};
enum lw_status lw_input_read_as(const char *name, const struct lw_input_reading *how,
                                struct lw_input *in, struct lw_err *err);
/* The same of gzip data in memory; `name` is for messages, and borrowed. */
enum lw_status lw_input_unpack(const char *name, const void *packed, size_t n, struct lw_input *in,
                               struct lw_err *err);
void lw_input_free(struct lw_input *in);
/* The text alone: name and hash stay. */
void lw_input_free_text(struct lw_input *in);
/* A text as one gzip member; *packed with lw_free. */
enum lw_status lw_gzip_pack(const char *text, size_t len, char **packed, size_t *n,
                            struct lw_err *err);
