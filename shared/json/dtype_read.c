/* An element type in a JSON file. Plugins contain dtype.c and no JSON reader. */
#include "shared/json/dtype_read.h"

enum lw_dtype lw_dtype_read(struct lw_json *j)
{
    enum lw_dtype t = LW_F32;
    struct lw_err err;
    size_t len;
    const char *name = lw_json_string(j, &len);

    if (!lw_json_failed(j) && lw_dtype_parse(name, &t, &err) != LW_OK)
        lw_json_fail(j, "%s", err.msg);
    return t;
}
