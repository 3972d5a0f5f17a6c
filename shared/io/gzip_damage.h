#pragma once

#include <stddef.h>

#include "shared/base/err.h"

/* Bytes in a block of lw_alloc with room for `room` of them and LW_JSON_PADDING more. */
struct lw_gzip_text {
    char *text;
    size_t len, room;
};

/* What is wrong with a gzip member that could not be unpacked, and how far it goes.
 *   packed[n]  the file; the member begins at byte `from`
 *   text       NULL: only the reason is wanted. Else what unpacks before the damage is appended
 *   why        always filled: "NAME: byte B: the gzip data ..."
 * LW_OK; LW_ENOMEM; LW_EIO: more than max bytes (0 = no limit). */
enum lw_status lw_gzip_damage(const char *name, const char *packed, size_t n, size_t from,
                              size_t max, struct lw_gzip_text *text, struct lw_err *why,
                              struct lw_err *err);
