/* What a search is of, as a text: of each part its command up to the options of the strategy, the
 * contents of its files by their hashes, and the lists that are searched. */
#include "analysis/tune/tune_identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/tune/tune_search.h"
#include "shared/base/hash.h"
#include "shared/files/files.h"
#include "shared/io/input.h"

static void put_framework(FILE *f, const char *name)
{
    struct lw_framework x;
    char hash[33] = "";

    if (!name)
        return;
    if (lw_framework_find(name, &x, NULL) == LW_OK) {
        if (lw_framework_hash(&x, hash, NULL) != LW_OK)
            hash[0] = '\0';
        lw_framework_free(&x);
    }
    fprintf(f, "framework %s %s\n", name, hash);
}

/* The contents of a file, of a folder those of its config.json; a known name has none. */
static enum lw_status put_file(FILE *f, const char *what, const char *name, struct lw_err *err)
{
    struct stat st;
    struct lw_input in;
    char path[4096];

    if (!name)
        return LW_OK;
    int n = snprintf(path, sizeof path, lw_is_folder(name) ? "%s/config.json" : "%s", name);
    if (n < 0 || (size_t)n >= sizeof path || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return LW_OK;
    LW_TRY(lw_input_read(path, 0, &in, err));
    fprintf(f, "%s %s\n", what, in.hash);
    lw_input_free(&in);
    return LW_OK;
}

static enum lw_status put_part(FILE *f, const struct lw_tune_part *p, struct lw_err *err)
{
    const struct lw_plan_source *source = p->request.source;
    const struct lw_cluster *c = p->request.cluster;
    char hash[33];

    LW_TRY(lw_cluster_hash(c, hash, err));
    fprintf(f, "%s\ncluster %s %s, price %.17g\n", p->command, c->name, hash,
            p->price > 0                                       ? p->price
            : lw_figure_is_set(c->price_per_device_hour) ? c->price_per_device_hour.value
                                                               : -1);
    if (lw_figure_is_set(c->noise.device_spread)) /* until it had one, a search left it out */
        fprintf(f, "device spread %g in every step\n", c->noise.device_spread.value);
    put_framework(f, source->framework_name);
    if (p->workload_hash[0])
        fprintf(f, "workload %s\n", p->workload_hash);
    else
        LW_TRY(put_file(f, "workload", source->workload_file, err));
    LW_TRY(put_file(f, "device", source->device, err));
    LW_TRY(put_file(f, "from-device", source->from_device, err));
    fprintf(f, "ranks %lld\n", (long long)p->space.ranks);
    for (int i = 0; i < p->space.n_dims; i++) {
        const struct lw_tune_dim *d = &p->space.dim[i];
        fprintf(f, "%s ", d->name);
        for (int k = 0; k < d->n; k++)
            fprintf(f, "%s%s", k ? "," : "", d->values[k]);
        fputc('\n', f);
    }
    return LW_OK;
}

enum lw_status lw_tune_identity(const struct lw_tune_part *parts, int n_parts, struct lw_arena *a,
                                const char **space, const char **hash_of, struct lw_err *err)
{
    char *text = NULL, *hash = lw_arena_alloc(a, 33, 1);
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    enum lw_status st = f && hash ? LW_OK : lw_fail_nomem(err);

    if (f)
        fprintf(f, "lapwing %s\nparts", LW_VERSION);
    for (int p = 0; f && p < n_parts; p++)
        fprintf(f, "%s %s", p ? ";" : "", parts[p].outer[0] ? parts[p].outer : "one");
    if (f)
        fputc('\n', f);
    for (int p = 0; st == LW_OK && p < n_parts; p++)
        st = put_part(f, &parts[p], err);
    if (f && fclose(f) != 0 && st == LW_OK)
        st = lw_fail_nomem(err);
    if (st == LW_OK) {
        lw_hash_of(text, size, hash);
        *hash_of = hash;
        *space = lw_arena_strdup(a, text);
        st = *space ? LW_OK : lw_fail_nomem(err);
    }
    free(text);
    return st;
}

/* The begin of the option in which two command lines differ. */
static size_t option_at(const char *a, const char *b)
{
    size_t at = 0;

    for (size_t i = 0; a[i] == b[i] && a[i] && a[i] != '\n'; i++)
        if (a[i] == ' ' && a[i + 1] == '-')
            at = i + 1;
    return at;
}

void lw_tune_differing(const char *a, const char *b, char one[64], char other[64])
{
    while (*a && *b) {
        size_t n = strcspn(a, "\n"), k = strcspn(b, "\n");
        if (n != k || strncmp(a, b, n) != 0)
            break;
        a += n + (a[n] == '\n');
        b += k + (b[k] == '\n');
    }
    if (strcspn(a, "\n") > 40 || strcspn(b, "\n") > 40) {
        size_t at = option_at(a, b);
        a += at;
        b += at;
    }
    snprintf(one, 64, "%.*s", (int)strcspn(a, "\n"), a);
    snprintf(other, 64, "%.*s", (int)strcspn(b, "\n"), b);
}
