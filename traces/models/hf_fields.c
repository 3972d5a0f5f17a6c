/* One field of a Hugging Face config.json: numbers, flags, lists, shares, and what the file writes.
 */
#include "traces/models/hf_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/numbers/units.h"

const char *traces_hf_written(const struct lw_value *v, char *text, size_t size)
{
    static const char *const kinds[] = {[LW_JSON_NULL] = "null", [LW_JSON_OBJECT] = "an object",
                                        [LW_JSON_ARRAY] = "a list"};

    if (v->type == LW_JSON_STRING)
        snprintf(text, size, "\"%.40s\"", v->text);
    else if (v->type == LW_JSON_NUMBER)
        snprintf(text, size, "%.40s", v->text);
    else
        snprintf(text, size, "%s", v->type == LW_JSON_BOOL ? v->truth ? "true" : "false"
                                                           : kinds[v->type]);
    return text;
}

enum lw_status traces_hf_number(const struct lw_input *in, const struct lw_value *v,
                                const char *key, int64_t least, int64_t *out, struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(v, key);
    int64_t number;
    char found[64];

    *out = 0;
    if (!f || f->type == LW_JSON_NULL)
        return LW_OK;
    if (f->type != LW_JSON_NUMBER || lw_parse_int(f->text, least, 1 << 24, &number, NULL) != LW_OK)
        return lw_fail(err, LW_EFORMAT, "%s: %s: found %s, expected a whole number from %d to %d",
                       in->name, key, traces_hf_written(f, found, sizeof found), (int)least,
                       1 << 24);
    *out = number;
    return LW_OK;
}

enum lw_status traces_hf_flag(const struct lw_input *in, const struct lw_value *v, const char *key,
                              bool otherwise, bool *out, struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(v, key);
    char found[64];

    if (f && f->type != LW_JSON_NULL && f->type != LW_JSON_BOOL)
        return lw_fail(err, LW_EFORMAT, "%s: %s: found %s, expected true or false", in->name, key,
                       traces_hf_written(f, found, sizeof found));
    *out = f && f->type == LW_JSON_BOOL ? f->truth : otherwise;
    return LW_OK;
}

enum lw_status traces_hf_items(const struct lw_input *in, const struct lw_value *v,
                               const char *key, enum lw_json_type type,
                               const struct lw_value **out, struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(v, key);
    char found[64];

    *out = f && f->type == type ? f : NULL;
    if (!f || f->type == LW_JSON_NULL || f->type == type)
        return LW_OK;
    return lw_fail(err, LW_EFORMAT, "%s: %s: found %s, expected %s", in->name, key,
                   traces_hf_written(f, found, sizeof found),
                   type == LW_JSON_ARRAY ? "a list" : "an object");
}

enum lw_status traces_hf_need_flag(const struct lw_input *in, const struct lw_value *v,
                                   const char *type, const char *key, bool otherwise, bool needed,
                                   struct lw_err *err)
{
    bool found = otherwise;

    LW_TRY(traces_hf_flag(in, v, key, otherwise, &found, err));
    if (found == needed)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP, "%s: %s: found %s, allowed: %s (model_type %s has no other "
                   "form here); import a recording of it (lapwing import)", in->name, key,
                   found ? "true" : "false", needed ? "true" : "false", type);
}

enum lw_status traces_hf_rotation(const struct lw_input *in, const struct lw_value *v,
                                  const char *share_key, double otherwise,
                                  struct traces_model_shape *s, struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(v, share_key);
    double share = f && f->type == LW_JSON_NUMBER ? strtod(f->text, NULL) : otherwise;
    bool given = f && f->type != LW_JSON_NULL;

    if (given && (f->type != LW_JSON_NUMBER || !(share > 0 && share <= 1)))
        return lw_fail(err, LW_EFORMAT, "%s: %s: expected a number above 0, at most 1", in->name,
                       share_key);
    int64_t width = s->head_width ? s->head_width : s->hidden / s->heads;
    s->rope_width = (int64_t)((double)width * share);
    return LW_OK;
}
