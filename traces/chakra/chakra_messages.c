/* Messages of Chakra files, told apart by their field numbers (MLCommons Chakra, the history of
 * schema/protobuf/et_def.proto: ec3832c to 86326cd). Node: id 1, name 2, type 3, dependencies 4 and
 * 5, times 6 and 7, attributes 10, storage 11. Before October 2023: inputs and outputs as texts
 * 5 to 10, attributes 11, in the first version single fields up to 20. */
#include "traces/chakra/chakra_messages.h"

enum { VARINT = 0, EIGHT_BYTES = 1, BYTES = 2, FOUR_BYTES = 5, LAST_FIELD = 20, LAST_TYPE = 10 };

bool chakra_varint_at(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; *p < end && shift < 70; shift += 7) {
        uint8_t byte = *(*p)++;
        *v |= (uint64_t)(byte & 0x7f) << (shift < 64 ? shift : 0);
        if (byte < 0x80)
            return true;
    }
    return false;
}

struct field {
    uint64_t number, wire, value; /* value: of a varint, else the length */
    const uint8_t *at;            /* of bytes */
};

static bool next_field(const uint8_t **p, const uint8_t *end, struct field *f)
{
    uint64_t tag;

    if (!chakra_varint_at(p, end, &tag))
        return false;
    f->number = tag >> 3;
    f->wire = tag & 7;
    if (f->wire == VARINT)
        return chakra_varint_at(p, end, &f->value);
    f->value = f->wire == EIGHT_BYTES ? 8 : 4;
    if (f->wire == BYTES ? !chakra_varint_at(p, end, &f->value)
                         : f->wire != EIGHT_BYTES && f->wire != FOUR_BYTES)
        return false;
    f->at = *p;
    if (f->value > (uint64_t)(end - *p))
        return false;
    *p += f->value;
    return true;
}

static bool is_attribute(const struct field *f)
{
    return f->wire == BYTES && f->value >= 2 && f->at[0] == 10; /* its name */
}

/* A text of at most `most` bytes without control characters. */
static bool is_text(const struct field *f, uint64_t most)
{
    if (f->wire != BYTES || f->value > most)
        return false;
    for (uint64_t i = 0; i < f->value; i++)
        if (f->at[i] < ' ' || f->at[i] == 127)
            return false;
    return true;
}

/* Attributes under `attributes`, and a version where `version` is its field. */
static bool is_metadata(const uint8_t *p, const uint8_t *end, uint64_t version, uint64_t attributes)
{
    struct field f;

    while (p < end)
        if (!next_field(&p, end, &f) || !((f.number == version && is_text(&f, 64)) ||
                                          (f.number == attributes && is_attribute(&f))))
            return false;
    return true;
}

static bool is_node(const uint8_t *p, const uint8_t *end)
{
    bool named = false, typed = false;
    struct field f;

    while (p < end) {
        if (!next_field(&p, end, &f) || f.number == 0 || f.number > LAST_FIELD)
            return false;
        bool right = f.number == 1   ? f.wire == VARINT
                     : f.number == 2 ? is_text(&f, 1 << 16)
                     : f.number == 3 ? f.wire == VARINT && f.value <= LAST_TYPE
                                     : true;
        if (!right)
            return false;
        named |= f.number == 2;
        typed |= f.number == 3;
    }
    return named && typed;
}

bool chakra_is_old_node(const uint8_t *p, const uint8_t *end)
{
    bool texts = false, attributes = false, old = false;
    struct field f;

    while (p < end) {
        if (!next_field(&p, end, &f))
            return false;
        texts |= (f.number == 6 || f.number == 7) && f.wire == BYTES;
        attributes |= f.number == 11 && is_attribute(&f);
        old |= f.number > 11 || (f.number == 11 && f.wire == VARINT);
    }
    return texts || attributes || old;
}

enum chakra_first chakra_first_message(const uint8_t *p, size_t len)
{
    const uint8_t *end = p + len;
    uint64_t n, next;

    if (!chakra_varint_at(&p, end, &n) || n > (uint64_t)(end - p))
        return CHAKRA_FIRST_NONE;
    if (n == 0)
        return chakra_varint_at(&p, end, &next) && next <= (uint64_t)(end - p) &&
                       is_node(p, p + next)
                   ? CHAKRA_FIRST_EMPTY
                   : CHAKRA_FIRST_NONE;
    end = p + n;
    return n < 2                         ? CHAKRA_FIRST_NONE
           : is_metadata(p, end, 1, 2)   ? CHAKRA_FIRST_METADATA
           : is_metadata(p, end, 0, 1)   ? CHAKRA_FIRST_OLDER
           : is_node(p, end)             ? CHAKRA_FIRST_NODE
                                         : CHAKRA_FIRST_NONE;
}

static bool is_fixed(const uint8_t *p, size_t len, bool big)
{
    uint32_t n = big ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
                     : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];

    return n >= 2 && n <= len - 4 && is_metadata(p + 4, p + 4 + n, 1, 2);
}

const char *chakra_fixed_lengths(const uint8_t *p, size_t len)
{
    return len < 8                  ? NULL
           : is_fixed(p, len, true) ? "big-endian"
           : is_fixed(p, len, false) ? "little-endian"
                                     : NULL;
}
