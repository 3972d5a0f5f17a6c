/* The slow path of reading gzip: libdeflate unpacks whole members fast, but says of a bad one only
 * that it is bad. zlib unpacks in a stream, so it knows the byte, the reason, and everything before
 * it. What it gives is not verified: the checksum is at the end of a member. */
#include "shared/io/gzip_damage.h"

#include <zlib.h>

#include "shared/base/arena.h"
#include "shared/json/json.h"

enum { STEP = 1 << 20 };

static void *take(void *ctx, uInt n, uInt size)
{
    (void)ctx;
    return lw_calloc(n, size);
}

static void give(void *ctx, void *p)
{
    (void)ctx;
    lw_free(p);
}

static enum lw_status make_room(struct lw_gzip_text *t, size_t need, struct lw_err *err)
{
    size_t room = t->room ? t->room : STEP;

    if (t->text && t->room >= need)
        return LW_OK;
    while (room < need)
        room *= 2;
    char *p = lw_realloc(t->text, room + LW_JSON_PADDING);
    if (!p)
        return lw_fail_nomem(err);
    t->text = p;
    t->room = room;
    return LW_OK;
}

static void say_why(const char *name, const z_stream *z, int result, size_t at, size_t made,
                    struct lw_err *why)
{
    if (result == Z_BUF_ERROR || result == Z_OK)
        lw_fail(why, LW_EFORMAT,
                "%s: byte %zu: the gzip data ends too early (truncated); %zu bytes unpack from it",
                name, at, made);
    else if (made == 0)
        lw_fail(why, LW_EFORMAT, "%s: byte %zu: this is not gzip data (%s)", name, at,
                z->msg ? z->msg : "unknown");
    else
        lw_fail(why, LW_EFORMAT,
                "%s: byte %zu: the gzip data is damaged (%s); %zu bytes unpack before", name, at,
                z->msg ? z->msg : result == Z_STREAM_END ? "refused" : "unknown", made);
}

enum lw_status lw_gzip_damage(const char *name, const char *packed, size_t n, size_t from,
                              size_t max, struct lw_gzip_text *text, struct lw_err *why,
                              struct lw_err *err)
{
    z_stream z = {.zalloc = take, .zfree = give, .next_in = (z_const Bytef *)packed + from};
    struct lw_gzip_text scratch = {0};
    struct lw_gzip_text *to = text ? text : &scratch;
    size_t made = 0, left = n - from;
    enum lw_status status = LW_OK;
    int result = Z_OK;

    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return lw_fail_nomem(err);
    while (result == Z_OK && status == LW_OK) {
        uInt in = left < STEP ? (uInt)left : STEP;
        if (max && to->len > max)
            status = lw_fail(err, LW_EIO, "%s: unpacks to more than %zu bytes", name, max);
        else
            status = make_room(to, to->len + STEP, err);
        if (status != LW_OK)
            break;
        z.avail_in = in;
        z.next_out = (Bytef *)to->text + to->len;
        z.avail_out = STEP;
        result = inflate(&z, Z_NO_FLUSH);
        left -= in - z.avail_in;
        made += STEP - z.avail_out;
        to->len = text ? to->len + (STEP - z.avail_out) : 0;
    }
    if (status == LW_OK && result == Z_MEM_ERROR)
        status = lw_fail_nomem(err);
    if (status == LW_OK)
        say_why(name, &z, result, n - left, made, why);
    inflateEnd(&z);
    lw_free(scratch.text);
    return status;
}
