#pragma once

#include "shared/base/err.h"
#include "shared/workload/model_request.h"
#include "shared/workload/workload.h"

/* The one way from a model to a workload: `lapwing model` and every command that takes a model use
 * it (lw_model_maker). The request's name is a model, a Hugging Face config.json, or a folder that
 * holds one. The workload keeps the request, with the sizes of a configuration in place of its
 * file, and what it was made for. Without a cluster it has sizes and no times, and names no device.
 * LW_ENO: neither a model nor a configuration has that name; other errors as traces_model_build. */
enum lw_status traces_model_workload(const struct lw_model_request *request,
                                     const struct lw_model_target *target, struct lw_workload *w,
                                     struct lw_err *err);

/* The request with the sizes of the configuration that it names, and its family as the name. A
 * request that names a model stays as it is. Texts of `out` are the request's or constant. */
enum lw_status traces_model_resolve(const struct lw_model_request *request,
                                    struct lw_model_request *out, struct lw_err *err);
