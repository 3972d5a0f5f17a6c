/* Framework files: docs/formats/framework.md; and the known frameworks, which are such files built
 * into the binary. A framework is found by the name of its file in shared/framework. */
#include "shared/files/files.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/nearest.h"
#include "shared/files/files_field.h"
#include "shared/framework/framework.h"
#include "shared/io/embedded.h"

#define FOLDER "traces/frameworks/"

#define FACT(m, ...) LW_F_FIGURE(#m, AT(m)),
#define TIME(m, ...) LW_F(#m "_ns", FIGURE_NS, AT(m##_ps)),
#define AT(field) offsetof(struct lw_framework, field)
static const struct lw_field kernels_fields[] = {LW_FRAMEWORK_KERNELS(FACT, TIME){0}};
static const struct lw_field host_fields[] = {LW_FRAMEWORK_HOST(FACT, TIME){0}};
static const struct lw_field step_fields[] = {LW_FRAMEWORK_STEP(FACT, TIME){0}};
static const struct lw_field memory_fields[] = {LW_FRAMEWORK_MEMORY(FACT, TIME){0}};
static const struct lw_field stages_fields[] = {LW_FRAMEWORK_STAGES(FACT, TIME){0}};
#undef AT

#define AT(field) offsetof(struct lw_usual_option, field)
static const struct lw_field usual_fields[] = {
    LW_F_NAME("option", AT(option)),
    LW_F_NAME("value", AT(value)),
    LW_F_STRING("device", AT(device)),
    LW_F_NAME("source", AT(source)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_framework, field)
const struct lw_field lw_framework_file_fields[] = {
    LW_F_HEAD,
    LW_F_NAME("name", AT(name)),
    LW_F_STRING("about", AT(about)),
    LW_F_STRING("version", AT(version)),
    LW_F_STRING("base", AT(base)),
    LW_F_ITEMS("without", STRINGS, AT(without), AT(n_without)),
    LW_F_OBJECT("kernels", 0, kernels_fields),
    LW_F_OBJECT("host", 0, host_fields),
    LW_F_OBJECT("step", 0, step_fields),
    LW_F_OBJECT("memory", 0, memory_fields),
    LW_F_OBJECT("stages", 0, stages_fields),
    LW_F_LIST("usual", AT(usual), AT(n_usual), usual_fields, struct lw_usual_option),
    {0},
};
#undef AT

enum lw_status lw_framework_write(const struct lw_framework *f, const char *file,
                                  struct lw_err *err)
{
    LW_TRY(lw_framework_check(f, err));
    return lw_file_write(file, "framework", lw_framework_file_fields, f, err);
}

/* --- known frameworks ------------------------------------------------------------------------- */

/* The name in "traces/frameworks/NAME.json", and its length. */
static const char *name_in(const char *path, int *n)
{
    const char *name = path + strlen(FOLDER);

    *n = (int)(strlen(name) - strlen(".json"));
    return name;
}

static const struct lw_embedded *known_at(int k)
{
    for (const struct lw_embedded *e = lw_embedded_files; e->path; e++)
        if (strncmp(e->path, FOLDER, strlen(FOLDER)) == 0 && k-- == 0)
            return e;
    return NULL;
}

bool lw_framework_known(int k, char name[64])
{
    const struct lw_embedded *e = known_at(k);
    int n;

    if (!e)
        return false;
    const char *at = name_in(e->path, &n);
    snprintf(name, 64, "%.*s", n, at);
    return true;
}

/* "Megatron_LM" is a name too. */
static bool same_name(const char *known, int n, const char *given)
{
    for (; n > 0 && *given; n--, known++, given++) {
        int c = *given == ' ' || *given == '_' ? '-' : tolower((unsigned char)*given);
        if (c != *known)
            return false;
    }
    return n == 0 && !*given;
}

static const struct lw_embedded *find_known(const char *name)
{
    const struct lw_embedded *e;
    int n;

    for (int k = 0; (e = known_at(k)) != NULL; k++) {
        const char *at = name_in(e->path, &n);
        if (same_name(at, n, name))
            return e;
    }
    return NULL;
}

/* " (did you mean 'NAME'?)" or nothing. */
static const char *nearest_known(const char *name, char hint[96])
{
    struct lw_nearest near = lw_nearest_begin(name);
    char known[64], best[64] = "";

    for (int k = 0; lw_framework_known(k, known); k++) {
        const char *before = near.best;
        lw_nearest_try(&near, known);
        if (near.best != before)
            snprintf(best, sizeof best, "%s", known);
        near.best = best[0] ? best : NULL;
    }
    return lw_nearest_hint(&near, "", hint, 96);
}

static enum lw_status finish(const char *file, enum lw_status s, struct lw_framework *read,
                             struct lw_framework *f, struct lw_err *err);

static enum lw_status read_known(const struct lw_embedded *e, struct lw_framework *f,
                                 struct lw_err *err)
{
    struct lw_framework read = {0};
    enum lw_status s = lw_text_read(e->path, (const char *)e->text, e->len, "framework",
                                    lw_framework_file_fields, &read.arena, &read, err);

    return finish(e->path, s, &read, f, err);
}

/* f, as its file says it, becomes whole. */
static enum lw_status join_base(struct lw_framework *f, struct lw_err *err)
{
    struct lw_framework base;
    char hint[96];

    if (!f->base[0])
        return f->n_without ? lw_fail(err, LW_EFORMAT, "at without: there is no base") : LW_OK;
    const struct lw_embedded *e = find_known(f->base);
    if (!e)
        return lw_fail(err, LW_EFORMAT, "at base: '%s' is not a known framework%s; `lapwing "
                                        "framework` lists them", f->base,
                       nearest_known(f->base, hint));
    LW_TRY(read_known(e, &base, err));
    enum lw_status s = lw_framework_on_base(f, &base, err);
    lw_arena_join(&f->arena, &base.arena); /* texts that f has now */
    return s;
}

enum lw_status lw_framework_find(const char *name_or_file, struct lw_framework *f,
                                 struct lw_err *err)
{
    const struct lw_embedded *e = find_known(name_or_file);
    char hint[96];
    struct stat st;

    if (!e && (strcmp(name_or_file, "-") == 0 || stat(name_or_file, &st) == 0))
        return lw_framework_read(name_or_file, f, err);
    if (!e)
        return lw_fail(err, LW_EINVAL, "framework '%s': no such file and no known framework%s; "
                                       "`lapwing framework` lists them", name_or_file,
                       nearest_known(name_or_file, hint));
    return read_known(e, f, err);
}

/* --- files ------------------------------------------------------------------------------------ */

static enum lw_status finish(const char *file, enum lw_status s, struct lw_framework *read,
                             struct lw_framework *f, struct lw_err *err)
{
    if (s == LW_OK)
        s = lw_err_context(err, join_base(read, err), "%s", file);
    if (s == LW_OK)
        s = lw_err_context(err, lw_framework_check(read, err), "%s", file);
    LW_GIVE(s, f, *read, lw_framework_free(read));
}

enum lw_status lw_framework_read(const char *file, struct lw_framework *f, struct lw_err *err)
{
    struct lw_framework read = {0};
    enum lw_status s =
        lw_file_read(file, "framework", lw_framework_file_fields, &read.arena, &read, err);

    return finish(file, s, &read, f, err);
}
