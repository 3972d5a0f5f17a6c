/* Numbers, times, texts and shapes of a Kineto trace, as JSON gives them. What is of another type
 * is absent; a time that is no number is an error, which the JSON reader holds. */
#include "traces/kineto/kineto_reader.h"

#include "shared/json/json.h"
#include "traces/trace/decimal_time.h"

int32_t traces_kineto_intern(struct kineto_reader *r, const char *text, size_t len)
{
    int32_t id = traces_strings_add(&r->trace->strings, text, len);

    r->nomem |= id < 0;
    return id;
}

/* A whole number, bare or as a string; `absent` for anything else. */
int64_t traces_kineto_read_int(struct lw_json *j, int64_t absent)
{
    size_t len = 0;
    int64_t value;

    if (lw_json_decimal(j, 0, &value))
        return value;
    enum lw_json_type type = lw_json_type(j);
    if (type != LW_JSON_NUMBER && type != LW_JSON_STRING)
        return absent;
    const char *text = type == LW_JSON_NUMBER ? lw_json_number_text(j, &len)
                                              : lw_json_view(j, &len);
    return traces_decimal(text, len, 0, &value) ? value : absent;
}

int32_t traces_kineto_read_int32(struct lw_json *j, int32_t absent)
{
    int64_t value = traces_kineto_read_int(j, absent);

    return value >= 0 && value <= INT32_MAX ? (int32_t)value : absent;
}

int32_t traces_kineto_read_text(struct kineto_reader *r)
{
    size_t len;

    if (lw_json_type(r->json) != LW_JSON_STRING)
        return -1;
    const char *text = lw_json_view(r->json, &len);
    return len ? traces_kineto_intern(r, text, len) : -1;
}

/* Up to 2^61 ns (73 years, so 1970 to 2043) sums and differences of times fit int64. */
static bool is_time(int64_t ns)
{
    return ns <= INT64_MAX / 4 && ns >= -(INT64_MAX / 4);
}

/* Microseconds to ns. */
int64_t traces_kineto_read_time(struct lw_json *j, bool *has)
{
    size_t len;
    int64_t ns = 0;

    *has = true;
    if (lw_json_decimal(j, 3, &ns)) {
        if (!is_time(ns))
            lw_json_fail(j, "a time of %lld us is beyond 73 years from 0", (long long)(ns / 1000));
        return ns;
    }
    const char *text = lw_json_number_text(j, &len);
    if (!lw_json_failed(j) && (!traces_decimal(text, len, 3, &ns) || !is_time(ns)))
        lw_json_fail(j, "found %.*s, expected microseconds within 73 years of 0",
                     (int)(len < 40 ? len : 40), text);
    return ns;
}

/* Elements of a shape ([64, 3]: 192) or of a list of shapes ([[64, 3], [10]]: 202); -1 beyond
 * int64. */
int64_t traces_kineto_read_numel(struct lw_json *j, int depth)
{
    int64_t product = 1, sum = 0, part;
    bool is_list = false, overflow = false;

    if (depth > 8 || lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY))
        return -1;
    while (lw_json_next(j)) {
        is_list |= lw_json_type(j) == LW_JSON_ARRAY;
        part = is_list ? traces_kineto_read_numel(j, depth + 1) : traces_kineto_read_int(j, -1);
        if (part < 0 || (is_list ? __builtin_add_overflow(sum, part, &sum)
                                 : __builtin_mul_overflow(product, part, &product)))
            overflow = true;
    }
    return overflow ? -1 : is_list ? sum : product;
}

/* Enter an array, let the caller read its first element, skip the rest. */
bool traces_kineto_enter_first(struct lw_json *j)
{
    if (lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY))
        return false;
    return lw_json_next(j);
}
