/* Labels beside points: each takes the nearest free place of a short list, in the order in which
 * they are given. Greedy, so not the best arrangement of all, but the same one every time. */
#include "analysis/draw/plot_labels.h"

#include "shared/base/arena.h"

enum {
    FARTHEST = 12, /* heights that a label may lie away from its point */
    BESIDE = 4 * FARTHEST,
    PLACES = BESIDE + 2 * FARTHEST,
};

enum lw_status plot_labels_block(struct plot_labels *l, struct plot_box box, struct lw_err *err)
{
    LW_ROOM(l->taken, l->capacity, l->n + 1, err);
    l->taken[l->n++] = box;
    return LW_OK;
}

void plot_labels_free(struct plot_labels *l)
{
    lw_free(l->taken);
    *l = (struct plot_labels){0};
}

static bool is_free(const struct plot_labels *l, const struct plot_box *b)
{
    if (b->x0 < 0 || b->x1 > 1 || b->y0 < 0 || b->y1 > 1)
        return false;
    for (int64_t i = 0; i < l->n; i++) {
        const struct plot_box *t = &l->taken[i];
        if (b->x0 < t->x1 && t->x0 < b->x1 && b->y0 < t->y1 && t->y0 < b->y1)
            return false;
    }
    return true;
}

static struct plot_box box_at(double x, double y, double width, double height, bool right)
{
    return (struct plot_box){right ? x : x - width, right ? x + width : x, y - height / 2,
                             y + height / 2};
}

/* The k-th place of a text: below and above its point, to the right and the left, then farther
 * away; then over the point, moved inward from the side that it would cross. */
static struct plot_box place_of(double x, double y, double width, double height, int k)
{
    double gap = height / 2, line = k < BESIDE ? 1 + k / 4 : 1 + (k - BESIDE) / 2;
    double at = y + height * line * (k % 2 ? 1 : -1), begin = x - width / 2;

    if (k < BESIDE)
        return k % 4 < 2 ? box_at(x + gap, at, width, height, true)
                         : box_at(x - gap, at, width, height, false);
    begin = begin + width > 1 ? 1 - width : begin;
    return box_at(begin > 0 ? begin : 0, at, width, height, true);
}

/* The first place that is between the sides of the picture, taken or not. */
static int first_inside(double x, double width, double gap)
{
    return x + gap + width <= 1 ? 0 : x - gap - width >= 0 ? 2 : BESIDE;
}

enum lw_status plot_labels_place(struct plot_labels *l, double x, double y, double width,
                                 double height, double *at_x, double *at_y, bool *right,
                                 struct lw_err *err)
{
    struct plot_box b;
    int k = 0;

    for (; k < PLACES; k++) {
        b = place_of(x, y, width, height, k);
        if (is_free(l, &b))
            break;
    }
    if (k == PLACES)
        k = first_inside(x, width, height / 2);
    b = place_of(x, y, width, height, k);
    *right = k >= BESIDE || k % 4 < 2;
    *at_x = *right ? b.x0 : b.x1;
    *at_y = (b.y0 + b.y1) / 2;
    return plot_labels_block(l, b, err);
}
