/* `lapwing bench import`: speed and memory of importing a trace, plain and packed. */
#include "traces/import/bench_import_print.h"

#include "shared/text/table.h"
#include "traces/import/bench_import.h"

enum { PLAIN, PACKED, N_FORMS };

static const char *const forms[N_FORMS] = {"json", "gzip"};

static double per_s(const struct traces_import_speed *s)
{
    double all = s->read_s + s->parse_s;

    return all > 0 ? (double)s->json_bytes / all / 1e6 : 0;
}

static double multiple(const struct traces_import_speed *s)
{
    return (double)s->peak_rss_bytes / (double)s->json_bytes;
}

static void put_form(struct lw_jsonout *o, const struct traces_import_speed *s)
{
    LW_JSON(o, "json_bytes", s->json_bytes, "file_bytes", s->file_bytes, "n_events", s->n_events,
            "n_rows", s->n_rows, "read_s", lw_decimals(s->read_s, 6),
            "parse_s", lw_decimals(s->parse_s, 6), "cpu_s", lw_decimals(s->read_s + s->parse_s, 6),
            "json_mb_per_s", lw_decimals(per_s(s), 1), "peak_rss_bytes", s->peak_rss_bytes,
            "memory_multiple", lw_decimals(multiple(s), 3), "wall_s", lw_decimals(s->wall_s, 6),
            "n_cores", s->n_cores);
}

static enum lw_status print_table(const struct traces_import_speed *s, bool csv,
                                  struct lw_err *err)
{
    static const char *const text[] = {"form", ">file", ">JSON", ">events", ">rows", ">read s",
                                       ">parse s", ">JSON MB/s", ">peak memory", ">of JSON",
                                       ">all cores s"};
    static const char *const machine[] = {"form", "file_bytes", "json_bytes", "n_events", "n_rows",
                                          "read_s", "parse_s", "json_mb_per_s", "peak_rss_bytes",
                                          "memory_multiple", "wall_s"};
    struct lw_table *t = lw_table_new(11, csv ? machine : text);

    for (int i = 0; i < N_FORMS; i++) {
        LW_CELLS(t, forms[i], LW_BYTES_OR_COUNT(s[i].file_bytes, csv),
                 LW_BYTES_OR_COUNT(s[i].json_bytes, csv), s[i].n_events, s[i].n_rows,
                 lw_decimals(s[i].read_s, 3), lw_decimals(s[i].parse_s, 3),
                 lw_decimals(per_s(&s[i]), 1), LW_BYTES_OR_COUNT(s[i].peak_rss_bytes, csv));
        lw_table_cell(t, csv ? "%.3f" : "%.3f x", multiple(&s[i]));
        LW_CELLS(t, lw_decimals(s[i].wall_s, 3));
    }
    return lw_table_end(t, stdout, csv ? LW_TABLE_CSV : 0, err);
}

enum lw_status traces_bench_import_print(const char *file, int64_t bytes, enum lw_format format,
                                         struct lw_err *err)
{
    struct traces_import_speed s[N_FORMS];

    for (int i = 0; i < N_FORMS; i++)
        LW_TRY(traces_bench_import(file, bytes, i == PACKED, &s[i], err));
    if (format != LW_FORMAT_JSON)
        return print_table(s, format == LW_FORMAT_CSV, err);
    struct lw_jsonout o = {.file = stdout};
    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "name", "import", "file", file);
    put_form(&o, &s[PLAIN]);
    lw_jsonout_object(&o, "gzip");
    put_form(&o, &s[PACKED]);
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
    return LW_OK;
}
