/* The formats that are read, and which of them a file has: names and endings say nothing. JSON that
 * no other row takes is left to the Kineto reader, whose metadata may come before "traceEvents" for
 * any length; it refuses what is not a trace. */
#include "traces/import/importer.h"

#include <ctype.h>
#include <string.h>

#include "shared/io/input.h"

enum { LOOKED_AT = 4096 };

#define ROW(symbol) &lw_importer_##symbol,
const struct lw_importer *const lw_importers[] = {LW_IMPORTERS(ROW)};
const int lw_n_importers = sizeof lw_importers / sizeof *lw_importers;

/* Formats that are known and not read, by how they begin. */
static const char *other_format(const char *text, size_t len)
{
    static const struct {
        const char *begin, *is;
    } others[] = {
        {"SQLite format 3", "an SQLite database (of Nsight Systems, perhaps)"},
        {"\x1f\x8b", "gzip data inside gzip data"},
        {"PK\x03\x04", "a ZIP archive: unpack it first"},
        {"<", "HTML or XML"},
        {"\xff\xfe", "text in UTF-16: save it as UTF-8"},
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (len >= strlen(others[i].begin) &&
            memcmp(text, others[i].begin, strlen(others[i].begin)) == 0)
            return others[i].is;
    for (size_t i = 0; i < len && i < LOOKED_AT; i++)
        if (text[i] == '\0')
            return "binary data";
    return "text of no format that is known";
}

/* Appends as much as there is room for. */
static void append(char *text, size_t size, const char *more)
{
    size_t n = strlen(text);

    snprintf(text + n, size - n, "%s", more);
}

static enum lw_status refuse(const struct lw_input *in, const char *p, size_t len,
                             struct lw_err *err)
{
    char reads[1024] = "";

    for (int i = lw_n_importers - 1; i >= 0; i--) {
        append(reads, sizeof reads, lw_importers[i]->reads);
        append(reads, sizeof reads, i > 0 ? ", " : "; each may be gzipped");
    }
    return lw_fail(err, LW_EFORMAT, "%s: this is %s, which is not read here; what is: %s", in->name,
                   other_format(p, len), reads);
}

enum lw_status lw_importer_of(const struct lw_input *in, const struct lw_importer **out,
                              struct lw_err *err)
{
    const char *p = in->text, *end = in->text + in->len;

    if (in->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    while (p < end && isspace((unsigned char)*p))
        p++;
    if (p == end)
        return lw_fail(err, LW_EFORMAT, "%s: empty", in->name);
    for (int i = 0; i < lw_n_importers; i++)
        if (lw_importers[i]->is(in, p, (size_t)(end - p))) {
            *out = lw_importers[i];
            return LW_OK;
        }
    return refuse(in, p, (size_t)(end - p), err);
}

void lw_importers_help(const char *begin, bool inspect, const char *end, char *text, size_t size)
{
    snprintf(text, size, "%s", begin);
    for (int i = lw_n_importers - 1; i >= 0; i--) {
        const char *help = inspect ? lw_importers[i]->inspect_help : lw_importers[i]->import_help;
        append(text, size, help ? " " : "");
        append(text, size, help ? help : "");
    }
    append(text, size, end);
}
