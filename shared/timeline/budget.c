/* Days, device-hours and costs of a training: tokens over tokens per second, devices times hours,
 * and a price per device-hour. The times of checkpoints, failures and restarts are not in it. */
#include "shared/timeline/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/text/wrap.h"

static double above_0(double x)
{
    return x > 0 ? x : NAN;
}

struct lw_budget lw_budget_of(const struct lw_throughput *t, const struct lw_cluster *c,
                              const struct lw_budget_request *q, lw_ps step, lw_ps p10, lw_ps p90)
{
    const struct lw_figure own = c ? c->price_per_device_hour : (struct lw_figure){0};
    struct lw_budget b = {.tokens = above_0(q->tokens),
                          .price = above_0(q->price > 0 ? q->price
                                           : lw_figure_is_set(own) ? own.value : 0)};
    double low = step > 0 && p90 > 0 ? (double)p10 / (double)step : NAN;
    double high = step > 0 && p90 > 0 ? (double)p90 / (double)step : NAN;
    double hours = b.tokens / t->tokens_per_s / 3600;

    b.days = hours / 24;
    b.days_p10 = b.days * low;
    b.days_p90 = b.days * high;
    b.device_hours = hours * t->n_devices;
    b.cost = b.device_hours * b.price;
    b.cost_p10 = b.cost * low;
    b.cost_p90 = b.cost * high;
    b.cost_per_trillion = b.price * t->n_devices / 3600 / t->tokens_per_s * 1e12;
    b.cost_per_step = step > 0 ? b.price * t->n_devices / 3600 * (double)step * 1e-12 : NAN;
    return b;
}

static const struct {
    char letter;
    double factor;
} counts[] = {{'T', 1e12}, {'B', 1e9}, {'G', 1e9}, {'M', 1e6}, {'K', 1e3}};

enum lw_status lw_parse_tokens(const char *text, double *tokens, struct lw_err *err)
{
    static const char allowed[] = "a number of tokens above 0, as 300B or 1.5T (K, M, B, T)";
    char *end;
    double x = strtod(text, &end), factor = 1;

    if (end == text || (size_t)(end - text) > strspn(text, "+.0123456789eE"))
        return lw_fail(err, LW_EINVAL, "found '%s', expected %s", text, allowed);
    for (size_t i = 0; *end && i < sizeof counts / sizeof *counts; i++)
        if ((*end & ~0x20) == counts[i].letter) {
            factor = counts[i].factor;
            end++;
            break;
        }
    if (*end || !(x > 0) || !(x * factor <= 1e18) || x * factor < 1)
        return lw_fail(err, LW_EINVAL, "found '%s', expected %s, at most 1e18", text, allowed);
    *tokens = x * factor;
    return LW_OK;
}

/* --- printing --- */

static const char *tokens_text(char *buf, size_t size, double tokens)
{
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (tokens >= counts[i].factor) {
            snprintf(buf, size, "%.6g%c", tokens / counts[i].factor, counts[i].letter);
            return buf;
        }
    snprintf(buf, size, "%.6g", tokens);
    return buf;
}

/* Three digits at least: days of a month and hours of a small model alike. */
const char *lw_budget_figure(char buf[LW_BUDGET_FIGURE], double x)
{
    snprintf(buf, LW_BUDGET_FIGURE, x >= 1000 ? "%.0f" : x >= 100 ? "%.1f" : "%.3g", x);
    return buf;
}

static void put_days(const struct lw_budget *b, int32_t n_devices, FILE *f)
{
    char tokens[32], days[32], low[32], high[32], hours[32];

    fprintf(f, "%s tokens: %s days", tokens_text(tokens, sizeof tokens, b->tokens),
            lw_budget_figure(days, b->days));
    if (!isnan(b->days_p90))
        fprintf(f, " (p10-p90 %s-%s)", lw_budget_figure(low, b->days_p10),
                lw_budget_figure(high, b->days_p90));
    fprintf(f, " on %d device%s, %s device-hours", n_devices, lw_plural(n_devices),
            lw_budget_figure(hours, b->device_hours));
}

static void put_cost(const struct lw_budget *b, FILE *f)
{
    char cost[32], low[32], high[32], price[32], each[32];

    snprintf(price, sizeof price, "%.6g", b->price);
    if (!isnan(b->cost)) {
        fprintf(f, "; cost %s", lw_budget_figure(cost, b->cost));
        if (!isnan(b->cost_p90))
            fprintf(f, " (%s-%s)", lw_budget_figure(low, b->cost_p10),
                    lw_budget_figure(high, b->cost_p90));
        fprintf(f, " at %s per device-hour", price);
    } else {
        fprintf(f, "price %s per device-hour", price);
    }
    if (!isnan(b->cost_per_trillion))
        fprintf(f, ", %s per trillion tokens", lw_budget_figure(each, b->cost_per_trillion));
    else if (!isnan(b->cost_per_step))
        fprintf(f, ", %.4g a step", b->cost_per_step);
}

enum lw_status lw_budget_text(const struct lw_budget *b, int32_t n_devices, FILE *out,
                              struct lw_err *err)
{
    struct lw_paragraph line;

    if (isnan(b->days) && isnan(b->price))
        return LW_OK;
    FILE *f = lw_paragraph_open(&line, out, NULL);
    if (!isnan(b->days))
        put_days(b, n_devices, f);
    if (!isnan(b->price))
        put_cost(b, f);
    return lw_paragraph_close(&line, err);
}

void lw_budget_json(struct lw_jsonout *o, const struct lw_budget *b)
{
    LW_JSON_ROW(o, "budget", "tokens", b->tokens, "price_per_device_hour", b->price, "days",
                b->days, "days_p10", b->days_p10, "days_p90", b->days_p90, "device_hours",
                b->device_hours, "cost", b->cost, "cost_p10", b->cost_p10, "cost_p90", b->cost_p90,
                "cost_per_trillion_tokens", b->cost_per_trillion, "cost_per_step",
                b->cost_per_step);
}
