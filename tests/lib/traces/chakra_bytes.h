#pragma once

/* Chakra messages byte by byte, for hand-made traces. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct chakra_bytes {
    uint8_t v[8192];
    size_t n;
};

static inline void chakra_varint(struct chakra_bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        b->v[b->n++] = (uint8_t)(v | 0x80);
    b->v[b->n++] = (uint8_t)v;
}

static inline void chakra_field(struct chakra_bytes *b, int field, uint64_t v)
{
    chakra_varint(b, (uint64_t)field << 3);
    chakra_varint(b, v);
}

static inline void chakra_part(struct chakra_bytes *b, int field, const void *p, size_t n)
{
    chakra_varint(b, (uint64_t)field << 3 | 2);
    chakra_varint(b, n);
    memcpy(b->v + b->n, p, n);
    b->n += n;
}

/* An attribute: its number under a field of the oneof (int64 9, int32 7, bool 27). */
static inline void chakra_attr(struct chakra_bytes *b, const char *name, int field, uint64_t v)
{
    struct chakra_bytes a = {.n = 0};

    chakra_part(&a, 1, name, strlen(name));
    chakra_field(&a, field, v);
    chakra_part(b, 10, a.v, a.n);
}

static inline void chakra_text_attr(struct chakra_bytes *b, int in, const char *name,
                                    const char *text)
{
    struct chakra_bytes a = {.n = 0};

    chakra_part(&a, 1, name, strlen(name));
    chakra_part(&a, 29, text, strlen(text));
    chakra_part(b, in, a.v, a.n);
}

static inline void chakra_message(struct chakra_bytes *file, const struct chakra_bytes *m)
{
    chakra_varint(file, m->n);
    memcpy(file->v + file->n, m->v, m->n);
    file->n += m->n;
}

static inline void chakra_begin(struct chakra_bytes *file)
{
    struct chakra_bytes m = {.n = 0};

    file->n = 0;
    chakra_part(&m, 1, "0.0.4", 5);
    chakra_message(file, &m);
}

/* A node on the device; deps ends at -1. */
struct chakra_hand_node {
    uint64_t id;
    const char *name;
    int type;
    uint64_t us;
    int deps[4], n_deps;
    int comm, peer; /* of collectives: comm_type; of messages: the peer */
    int64_t bytes;
    const char *group;
    int tag;
};

static inline void chakra_node(struct chakra_bytes *file, struct chakra_hand_node x)
{
    struct chakra_bytes m = {.n = 0}, deps = {.n = 0};

    chakra_field(&m, 1, x.id);
    chakra_part(&m, 2, x.name, strlen(x.name));
    chakra_field(&m, 3, (uint64_t)x.type);
    for (int i = 0; i < x.n_deps; i++)
        chakra_varint(&deps, (uint64_t)x.deps[i]);
    if (x.n_deps > 0)
        chakra_part(&m, 5, deps.v, deps.n);
    if (x.us > 0)
        chakra_field(&m, 7, x.us);
    chakra_attr(&m, "is_cpu_op", 27, 0);
    if (x.type == 7)
        chakra_attr(&m, "comm_type", 9, (uint64_t)x.comm);
    if (x.type >= 5)
        chakra_attr(&m, "comm_size", 9, (uint64_t)x.bytes);
    if (x.type == 5)
        chakra_attr(&m, "comm_dst", 9, (uint64_t)x.peer);
    if (x.type == 6)
        chakra_attr(&m, "comm_src", 9, (uint64_t)x.peer);
    if (x.type == 5 || x.type == 6)
        chakra_attr(&m, "comm_tag", 9, (uint64_t)x.tag);
    if (x.group)
        chakra_text_attr(&m, 10, "pg_name", x.group);
    chakra_message(file, &m);
}
