/* Names that are given to options of a plan source. */
#include "shared/cli/source_names.h"

#include <string.h>
#include <unistd.h>

#include "shared/cli/source_parts.h"
#include "shared/files/files.h"

static enum lw_status find_cluster(const char *value, lw_model_maker *unused, struct lw_err *err)
{
    struct lw_cluster c;

    (void)unused;
    LW_TRY(lw_cluster_find(value, &c, err));
    lw_cluster_free(&c);
    return LW_OK;
}

static enum lw_status find_device(const char *value, lw_model_maker *unused, struct lw_err *err)
{
    struct lw_cluster c;

    (void)unused;
    LW_TRY(lw_cluster_find_device(value, &c, err));
    lw_cluster_free(&c);
    return LW_OK;
}

static enum lw_status find_framework(const char *value, lw_model_maker *unused, struct lw_err *err)
{
    struct lw_framework f;

    (void)unused;
    LW_TRY(lw_framework_find(value, &f, err));
    lw_framework_free(&f);
    return LW_OK;
}

/* Sizes of a model that depend on other options are not judged here. */
static enum lw_status find_workload(const char *value, lw_model_maker *make_model,
                                    struct lw_err *err)
{
    const struct lw_plan_source s = {.make_model = make_model};
    const struct lw_model_request r = {.name = value};
    struct lw_workload w;
    struct lw_err why = {0};

    if (lw_is_file(value))
        return access(value, F_OK) == 0 ? LW_OK
                                        : lw_fail(err, LW_EIO, "%s: no such file", value);
    enum lw_status status = lw_source_sizes(&s, &r, &w, &why);
    if (status == LW_OK)
        lw_workload_free(&w);
    return status == LW_ENO ? lw_fail(err, LW_EINVAL, "%s: no such file; as a model: %s", value,
                                      why.msg)
                            : LW_OK;
}

static enum lw_status find_strategy(const char *value, lw_model_maker *unused, struct lw_err *err)
{
    struct lw_arena strings = {0};
    struct lw_strategy s;

    (void)unused;
    enum lw_status status = lw_strategy_read(value, &strings, &s, err);
    lw_arena_free(&strings);
    return status;
}

enum lw_status lw_source_name_check(const char *option, const char *value,
                                    lw_model_maker *make_model, struct lw_err *err)
{
    static const struct {
        const char *option;
        enum lw_status (*find)(const char *value, lw_model_maker *make_model, struct lw_err *err);
    } each[] = {
        {"workload", find_workload}, {"cluster", find_cluster},    {"framework", find_framework},
        {"device", find_device},     {"from-device", find_device}, {"strategy", find_strategy},
    };

    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (strcmp(each[i].option, option) == 0 && strcmp(value, "-") != 0)
            return lw_err_context(err, each[i].find(value, make_model, err), "--%s", option);
    return LW_OK;
}
