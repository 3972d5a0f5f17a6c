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

/* Its first bytes, or all of them. */
static bool begins_with_zeros(const char *text, size_t len)
{
    static const char zeros[16];

    return len > 0 && memcmp(text, zeros, len < sizeof zeros ? len : sizeof zeros) == 0;
}

/* Formats that are known and not read, by how they begin or how the file is called, and how to get
 * one that is; without a remedy NULL, or where none is asked for, what the file looks like. */
static const char *other_format(const char *name, const char *text, size_t len, bool remedy)
{
    static const struct {
        const char *begin, *ending, *is;
    } others[] = {
        {NULL, ".nsys-rep", "a report of Nsight Systems: export it with 'nsys export --type sqlite "
                            "-o REPORT.sqlite REPORT.nsys-rep' and give that file"},
        {NULL, ".qdrep", "a report of Nsight Systems: export it with 'nsys export --type sqlite -o "
                         "REPORT.sqlite REPORT.qdrep' and give that file"},
        {NULL, ".qdstrm", "a raw capture of Nsight Systems: QdstrmImporter makes a report of it, "
                          "which 'nsys export --type sqlite' exports"},
        {NULL, ".xplane.pb", "an XPlane profile: profile the run with Nsight Systems ('nsys "
                             "profile') and give what 'nsys export --type sqlite' writes"},
        {NULL, ".rpd", "a ROCm profile (rpd): record the run with torch.profiler "
                       "(export_chrome_trace)"},
        {NULL, ".pftrace", "a Perfetto protobuf: have the profiler write Chrome JSON"},
        {"\x1f\x8b", NULL, "gzip data inside gzip data: unpack it once"},
        {"PK\x03\x04", NULL, "a ZIP archive: unpack it first"},
        {"\xff\xfe", NULL, "text in UTF-16: save it as UTF-8"},
    };

    if (remedy && begins_with_zeros(text, len))
        return "a file that begins with zero bytes: its writer was stopped, or the disk was full, "
               "before it was written; copy or record it again";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *b = others[i].begin, *e = others[i].ending;
        if (b && len >= strlen(b) && memcmp(text, b, strlen(b)) == 0)
            return others[i].is;
        if (e && strlen(name) >= strlen(e) && strcmp(name + strlen(name) - strlen(e), e) == 0)
            return others[i].is;
    }
    if (remedy)
        return NULL;
    if (*text == '<')
        return "HTML or XML";
    if (len >= 9 && memcmp(text, "num_ranks", 9) == 0)
        return "a GOAL schedule";
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

/* Profiles of TensorFlow, JAX and PyTorch/XLA: an XSpace, whose planes are named after devices. */
static bool is_xplane(const char *text, size_t len)
{
    size_t n = len < LOOKED_AT ? len : LOOKED_AT;

    return len > 0 && *text == '\n' &&
           (memmem(text, n, "/host:CPU", 9) || memmem(text, n, "/device:", 8) ||
            memmem(text, n, "/host:metadata", 14));
}

static enum lw_status refuse(const struct lw_input *in, const char *p, size_t len,
                             struct lw_err *err)
{
    const char *is = is_xplane(in->text, in->len) ? other_format(".xplane.pb", "", 0, true)
                                                  : other_format(in->name, p, len, true);
    char reads[1024] = "";

    if (is) /* which says what to do */
        return lw_fail(err, LW_EFORMAT, "%s: this is %s", in->name, is);
    for (int i = lw_n_importers - 1; i >= 0; i--) {
        append(reads, sizeof reads, lw_importers[i]->reads);
        append(reads, sizeof reads, lw_importers[i]->marks ? " (" : "");
        append(reads, sizeof reads, lw_importers[i]->marks ? lw_importers[i]->marks : "");
        append(reads, sizeof reads, lw_importers[i]->marks ? ")" : "");
        append(reads, sizeof reads, i > 0 ? ", " : "; each may be gzipped");
    }
    return lw_fail(err, LW_EFORMAT, "%s: this is %s, and none of what is read: %s", in->name,
                   other_format(in->name, p, len, false), reads);
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

bool lw_importer_takes(const struct lw_importer *x, const char *option)
{
    char word[32];

    snprintf(word, sizeof word, " %s ", option);
    return x->takes && strstr(x->takes, word);
}

enum lw_status lw_importer_refuse(const struct lw_importer_option *options, const void *files,
                                  const struct lw_importer *(*of)(const void *files, int k), int n,
                                  struct lw_err *err)
{
    for (; options->name; options++) {
        bool taken = !options->given || n == 0;
        for (int k = 0; k < n; k++)
            taken |= lw_importer_takes(of(files, k), options->name);
        if (taken)
            continue;
        const struct lw_importer *const *x = lw_importers;
        while (!lw_importer_takes(*x, options->name))
            x++;
        return lw_fail(err, LW_EINVAL,
                       "--%s is for %s: it changes nothing of a file of format '%s'", options->name,
                       (*x)->name, of(files, 0)->name);
    }
    return LW_OK;
}

void lw_importers_help(const char *begin, bool inspect, const char *end,
                       char text[LW_IMPORTERS_HELP])
{
    snprintf(text, LW_IMPORTERS_HELP, "%s", begin);
    for (int i = lw_n_importers - 1; i >= 0; i--) {
        const char *help = inspect ? lw_importers[i]->inspect_help : lw_importers[i]->import_help;
        append(text, LW_IMPORTERS_HELP, help ? " " : "");
        append(text, LW_IMPORTERS_HELP, help ? help : "");
    }
    append(text, LW_IMPORTERS_HELP, end);
}
