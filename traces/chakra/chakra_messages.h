#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the messages of a Chakra file are, by their bytes alone. */

enum chakra_first {
    CHAKRA_FIRST_NONE,     /* no message of a Chakra file */
    CHAKRA_FIRST_METADATA, /* version = 1, attributes = 2: schema 0.0.4 and later */
    CHAKRA_FIRST_OLDER,    /* attributes = 1: schema of October 2023 before it had a version */
    CHAKRA_FIRST_EMPTY,    /* a message about the file that says nothing */
    CHAKRA_FIRST_NODE,     /* a file that begins with its nodes */
};

/* The varint at *p; false: it ends beyond `end`, or has more than ten bytes. */
bool chakra_varint_at(const uint8_t **p, const uint8_t *end, uint64_t *v);
/* The first message of a file: p[0 .. len) with its length before it. */
enum chakra_first chakra_first_message(const uint8_t *p, size_t len);
/* "big-endian" or "little-endian": lengths of messages are numbers of four bytes; NULL: not so. */
const char *chakra_fixed_lengths(const uint8_t *p, size_t len);
/* A node under the field numbers of the schema before 0.0.4, up to October 2023. */
bool chakra_is_old_node(const uint8_t *p, const uint8_t *end);
