#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/numbers/units.h"
#include "shared/cluster/cluster.h"
#include "shared/json/jsonout.h"
#include "shared/plan/plan.h"

/* What a step yields, of the whole job unless the name says per device. docs/glossary.md defines
 * every figure and names its source. Not known: 0 for counts, NAN for the rest. */
struct lw_throughput {
    int32_t n_devices;
    int64_t samples, tokens;              /* of one step */
    double model_flops, hardware_flops;   /* of one step */
    double samples_per_s, tokens_per_s;
    double model_flops_per_s, hardware_flops_per_s; /* per device */
    double peak_flops_per_s;              /* of a device, in the type that products run in */
    const char *peak_of; /* that type: "bf16", "fp8", "nvfp4", ...; "" = not known */
    double mfu, hfu;
    double price_per_million_tokens;      /* in the currency of the cluster file */
};

/* step: 0 leaves what depends on it unknown. */
struct lw_throughput lw_throughput_of(const struct lw_plan *p, const struct lw_cluster *c,
                                      lw_ps step);

/* Of samples or tokens: five digits, from 100,000 on a whole number; returns buf. */
const char *lw_format_rate(char *buf, size_t size, double per_s);

/* One or two lines; nothing where no sample is known. And the object "throughput". */
void lw_throughput_text(const struct lw_throughput *t, FILE *f);
void lw_throughput_json(struct lw_jsonout *o, const struct lw_throughput *t);
