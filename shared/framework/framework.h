#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/framework/framework_facts.h"

struct lw_strategy;
struct lw_workload;

/* What a training program does that neither the model nor the strategy says. Each fact is a figure
 * with its source; an absent one (source NULL) is off. The framework `ideal` has none: everything
 * is fused, the host is never waited for, the allocator wastes nothing. See
 * docs/design/frameworks.md. */

/* A strategy option that the framework sets unless the user does. */
struct lw_usual_option {
    const char *option, *value, *source;
    const char *device; /* "cpu": only where it computes on CPUs; "" = everywhere */
};

struct lw_framework {
    const char *name, *about;
    const char *version; /* or the commit that the facts were read in */
    /* While a file is read: the known framework that it differs from, else "", and "group.name" of
     * the facts and usual options of that one which it lacks. */
    const char *base;
    int32_t n_without;
    const char **without;
#define LW_FRAMEWORK_ROW(member, ...) struct lw_figure member;
#define LW_FRAMEWORK_TIME(stem, ...) struct lw_figure stem##_ps;
    LW_FRAMEWORK_FACTS(LW_FRAMEWORK_ROW, LW_FRAMEWORK_TIME)
#undef LW_FRAMEWORK_ROW
#undef LW_FRAMEWORK_TIME
    int32_t n_usual;
    struct lw_usual_option *usual;
    struct lw_arena arena;
};

#define LW_IDEAL_FRAMEWORK "ideal"

/* A flag that is stated and not 0. */
bool lw_fact(struct lw_figure f);
/* The value of a figure, `otherwise` where it is absent. */
double lw_fact_value(struct lw_figure f, double otherwise);

/* Fact k in the order of the lists; name is that of files. */
struct lw_framework_fact {
    const char *name, *group, *unit, *help; /* unit "ns": the figure is in ps */
    struct lw_figure figure;
};
bool lw_framework_fact(const struct lw_framework *f, int k, struct lw_framework_fact *out);

struct lw_figure *lw_framework_figure(struct lw_framework *f, int k); /* of fact k */

/* What f does not state is taken from base, but for what f->without names: base must state it, and
 * f must not. Texts of base must live as long as f. LW_EFORMAT names the place in f's file. */
enum lw_status lw_framework_on_base(struct lw_framework *f, const struct lw_framework *base,
                                    struct lw_err *err);

/* Values in range, options that exist. LW_EFORMAT names the place in the file. */
enum lw_status lw_framework_check(const struct lw_framework *f, struct lw_err *err);

/* 128-bit hash of the facts and usual options, in hex: not of name, texts and sources. */
enum lw_status lw_framework_hash(const struct lw_framework *f, char hex[33], struct lw_err *err);

/* What usual options act on: times of a CPU; measured times, of modules without kernels, of which
 * no plan has a ring (--cp-comm-type p2p) beside --tp-overlap. */
struct lw_usual_for {
    bool on_cpu, measured;
};

/* Sets the framework's usual options that the user has not chosen (lw_strategy_given) and that
 * apply: those of tensor groups with tp > 1, of context groups with cp > 1; on CPUs also those of
 * CPUs. What the user has chosen keeps out what no plan has with it; of a usual ring and a usual
 * --tp-overlap the overlap stays. A second call changes no option that the first has set. */
enum lw_status lw_framework_strategy(const struct lw_framework *f, struct lw_usual_for times,
                                     struct lw_strategy *s, struct lw_err *err);

/* After that: which usual option is left out beside another of s, and which that is, into text;
 * "" = none. */
void lw_framework_left_out(const struct lw_framework *f, const struct lw_strategy *s, char *text,
                           size_t size);

/* The times of a model's workload are of other gradients than the strategy's, where the framework
 * asks: of one data-parallel rank or several, of f32 or not. */
bool lw_framework_times_others(const struct lw_framework *f, const struct lw_workload *w,
                               const struct lw_strategy *s);

void lw_framework_free(struct lw_framework *f);
