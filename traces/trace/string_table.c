/* Interned strings: a trace of a million events has a few thousand names. Open addressing with
 * linear probing over XXH3 hashes, at most half full; hashes are kept, so growing reads no text. */
#include "traces/trace/string_table.h"

#include <string.h>
#include <xxhash.h>

static int64_t probe(const struct traces_strings *s, uint64_t hash, const char *text, size_t len)
{
    int64_t mask = s->n_slots - 1, at = (int64_t)(hash & (uint64_t)mask);

    for (; s->slot[at] != 0; at = (at + 1) & mask) {
        int32_t i = s->slot[at] - 1;
        if (s->hash[i] == hash && strncmp(s->text[i], text, len) == 0 && s->text[i][len] == '\0')
            break;
    }
    return at;
}

static int grow(struct traces_strings *s)
{
    int64_t n_slots = s->n_slots ? 2 * s->n_slots : 1024, mask = n_slots - 1;
    int32_t *slot = lw_calloc((size_t)n_slots, sizeof *slot);

    if (!slot)
        return -1;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t at = (int64_t)(s->hash[i] & (uint64_t)mask);
        while (slot[at] != 0)
            at = (at + 1) & mask;
        slot[at] = (int32_t)i + 1;
    }
    lw_free(s->slot);
    s->slot = slot;
    s->n_slots = n_slots;
    return 0;
}

int32_t traces_strings_add(struct traces_strings *s, const char *text, size_t len)
{
    const char *nul = memchr(text, '\0', len); /* a text ends at its first NUL */

    len = nul ? (size_t)(nul - text) : len;
    uint64_t hash = XXH3_64bits(text, len);
    if (2 * (s->n + 1) > s->n_slots && (s->n >= INT32_MAX / 2 || grow(s) < 0))
        return -1;
    int64_t at = probe(s, hash, text, len);
    if (s->slot[at] != 0)
        return s->slot[at] - 1;
    if (lw_reserve(&s->text, &s->text_cap, s->n + 1, sizeof *s->text) < 0 ||
        lw_reserve(&s->hash, &s->hash_cap, s->n + 1, sizeof *s->hash) < 0)
        return -1;
    char *copy = lw_arena_strndup(&s->arena, text, len);
    if (!copy)
        return -1;
    s->text[s->n] = copy;
    s->hash[s->n] = hash;
    s->slot[at] = (int32_t)++s->n;
    return s->slot[at] - 1;
}

void traces_strings_free(struct traces_strings *s)
{
    lw_free(s->text);
    lw_free(s->hash);
    lw_free(s->slot);
    lw_arena_free(&s->arena);
    *s = (struct traces_strings){0};
}
