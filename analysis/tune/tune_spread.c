/* The spread of devices that a search has in its steps, as sim says it of one prediction. */
#include "analysis/tune/tune_spread.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/shown_text.h"
#include "shared/text/wrap.h"

static void add(struct lw_tune_spreads *s, struct lw_tune_spread x)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->item[i].cluster, x.cluster) == 0 && s->item[i].value == x.value &&
            s->item[i].drawn == x.drawn)
            return;
    s->item[s->n++] = x;
}

enum lw_status lw_tune_spreads(const struct lw_tune_part *parts, int n_parts, struct lw_arena *a,
                               struct lw_tune_spreads *out, struct lw_err *err)
{
    struct lw_tune_spreads s = {.n = 0};

    LW_TAKE(a, s.item, n_parts, err);
    for (int i = 0; i < n_parts; i++) {
        const struct lw_cluster *c = parts[i].request.cluster;
        struct lw_figure f = c->noise.device_spread;
        add(&s, (struct lw_tune_spread){.cluster = c->name,
                                        .value = lw_figure_is_set(f) ? f.value : -1,
                                        .drawn = parts[i].noise.rank_sigma > 0});
    }
    *out = s;
    return LW_OK;
}

/* "cluster NAME HASH, price P": the name. */
static enum lw_status name_of(const char *line, size_t n, struct lw_arena *a, const char **name,
                              struct lw_err *err)
{
    static const char price[] = ", price ";
    size_t end = n;

    while (end > 0 && strncmp(line + end, price, sizeof price - 1) != 0)
        end--;
    while (end > 0 && line[end - 1] != ' ')
        end--;
    LW_PRINT(a, *name, err, "%.*s", end > 0 ? (int)end - 1 : 0, line);
    return LW_OK;
}

enum lw_status lw_tune_spreads_of_space(const char *space, struct lw_arena *a,
                                        struct lw_tune_spreads *out, struct lw_err *err)
{
    static const char cluster[] = "\ncluster ", spread[] = "device spread ",
                      noise[] = "--rank-noise ";
    struct lw_tune_spreads s = {.n = 0};
    int64_t n = 0;

    for (const char *at = space; (at = strstr(at, cluster)); at++)
        n++;
    LW_TAKE(a, s.item, n, err);
    for (const char *at = space, *found; (found = strstr(at, cluster)); at = found + 1) {
        struct lw_tune_spread x = {.value = -1};
        const char *line = found + strlen(cluster), *next = line + strcspn(line, "\n");
        const char *command = found; /* the line before */
        LW_TRY(name_of(line, (size_t)(next - line), a, &x.cluster, err));
        if (*next && strncmp(next + 1, spread, strlen(spread)) == 0)
            x.value = strtod(next + 1 + strlen(spread), NULL);
        while (command > space && command[-1] != '\n')
            command--;
        const char *drawn = strstr(command, noise);
        x.drawn = drawn && drawn < found && strtod(drawn + strlen(noise), NULL) > 0;
        add(&s, x);
    }
    *out = s;
    return LW_OK;
}

enum lw_status lw_tune_spreads_text(const struct lw_tune_spreads *s, FILE *f, struct lw_err *err)
{
    for (int i = 0; i < s->n; i++) {
        const struct lw_tune_spread *x = &s->item[i];
        struct lw_paragraph line;
        char name[200];
        FILE *o = lw_paragraph_open(&line, f, NULL);
        lw_shown_text(name, sizeof name, x->cluster);
        if (x->value < 0)
            fprintf(o, "not modelled: how devices of a kind differ (cluster '%s' gives no "
                       "device_spread; --device-spread states one)", name);
        else
            fprintf(o, "device_spread = %g of cluster '%s'%s", x->value, name,
                    x->drawn        ? ", not used: --rank-noise draws the speed of each rank"
                    : x->value == 0 ? ", not used: it is 0"
                                    : ": the slowest device of a strategy sets the pace of its "
                                      "products");
        LW_TRY(lw_paragraph_close(&line, err));
    }
    return LW_OK;
}

void lw_tune_spreads_json(const struct lw_tune_spreads *s, struct lw_jsonout *o)
{
    lw_jsonout_array(o, "device_spread");
    for (int i = 0; i < s->n; i++) {
        const struct lw_tune_spread *x = &s->item[i];
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_string(o, "cluster", x->cluster);
        if (x->value < 0)
            lw_jsonout_null(o, "value");
        else
            lw_jsonout_double(o, "value", x->value);
        lw_jsonout_bool(o, "used", x->value > 0 && !x->drawn);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}
