/* Labels beside points: each takes the nearest free place of a short list, in the order in which
 * they are given. Greedy, so not the best arrangement of all, but the same one every time. */
#include "analysis/draw/plot_labels.h"

#include "shared/base/arena.h"

enum { FARTHEST = 12 }; /* heights that a label may lie away from its point */

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

enum lw_status plot_labels_place(struct plot_labels *l, double x, double y, double width,
                                 double height, double *at_x, double *at_y, bool *right,
                                 struct lw_err *err)
{
    double gap = height / 2;

    *right = x + gap + width <= 1;
    *at_x = *right ? x + gap : x - gap;
    *at_y = y - height;
    for (int k = 0; k < 4 * FARTHEST; k++) { /* below, above; right, left; then farther away */
        double away = height * (1 + k / 4) * (k % 2 ? 1 : -1);
        bool to_right = k % 4 < 2;
        struct plot_box b = box_at(to_right ? x + gap : x - gap, y + away, width, height, to_right);
        if (is_free(l, &b)) {
            *right = to_right;
            *at_x = to_right ? b.x0 : b.x1;
            *at_y = y + away;
            break;
        }
    }
    return plot_labels_block(l, box_at(*at_x, *at_y, width, height, *right), err);
}
