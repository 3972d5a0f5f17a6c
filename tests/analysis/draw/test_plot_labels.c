/* Labels beside points: none on another, on a point, or outside the picture. */
#include "tests/lib/unit.h"

#include "analysis/draw/plot_labels.h"
#include "shared/base/arena.h"
#include "tests/lib/prng.h"

static struct lw_err err;

static void place(struct plot_labels *l, double x, double y, struct plot_box *box, bool *right)
{
    double at_x, at_y;

    assert_int_equal(plot_labels_place(l, x, y, 0.2, 0.03, &at_x, &at_y, right, &err), LW_OK);
    *box = (struct plot_box){*right ? at_x : at_x - 0.2, *right ? at_x + 0.2 : at_x, at_y - 0.015,
                             at_y + 0.015};
}

TEST(a_lonely_label_lies_below_to_the_right)
{
    struct plot_labels l = {0};
    struct plot_box b;
    bool right;

    place(&l, 0.5, 0.5, &b, &right);
    assert_true(right);
    assert_float_equal(b.x0, 0.515, 1e-9); /* half a height beside the point */
    assert_float_equal(b.y1, 0.485, 1e-9); /* a height below it, to its middle */
    plot_labels_free(&l);
}

TEST(at_the_right_edge_it_lies_to_the_left)
{
    struct plot_labels l = {0};
    struct plot_box b;
    bool right;

    place(&l, 0.95, 0.5, &b, &right);
    assert_false(right);
    assert_float_equal(b.x1, 0.935, 1e-9);
    plot_labels_free(&l);
}

/* A text longer than the room on either side lies over the point, from the side that it would cross
 * inward: where it is free, and where nothing is. */
TEST(a_long_text_stays_in_the_picture)
{
    for (int full = 0; full < 2; full++)
        for (int i = 0; i <= 20; i++) {
            struct plot_labels l = {0};
            double at_x, at_y, x = i / 20.0;
            bool right;
            if (full)
                assert_int_equal(plot_labels_block(&l, (struct plot_box){0, 1, 0, 1}, &err), LW_OK);
            assert_int_equal(plot_labels_place(&l, x, 0.5, 0.56, 0.03, &at_x, &at_y, &right, &err),
                             LW_OK);
            double begin = right ? at_x : at_x - 0.56;
            assert_true(begin >= 0 && begin + 0.56 <= 1 + 1e-12);
            assert_true(at_y < 0.5 - 0.015 || at_y > 0.5 + 0.015);
            plot_labels_free(&l);
        }
}

static bool meet(const struct plot_box *a, const struct plot_box *b)
{
    return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1;
}

TEST(close_points_keep_their_labels_apart)
{
    struct prng r = prng_start("labels");
    enum { N = 12 };

    for (int round = 0; round < 50; round++) {
        struct plot_labels l = {0};
        struct plot_box point[N], label[N];
        bool right;
        for (int i = 0; i < N; i++) { /* all within a tenth of the picture */
            double x = 0.45 + (double)prng_in(&r, 0, 1000) / 10000;
            double y = 0.45 + (double)prng_in(&r, 0, 1000) / 10000;
            point[i] = (struct plot_box){x - 0.005, x + 0.005, y - 0.005, y + 0.005};
            assert_int_equal(plot_labels_block(&l, point[i], &err), LW_OK);
        }
        for (int i = 0; i < N; i++) {
            place(&l, point[i].x0 + 0.005, point[i].y0 + 0.005, &label[i], &right);
            for (int k = 0; k < N; k++)
                assert_false(meet(&label[i], &point[k]));
            for (int k = 0; k < i; k++)
                assert_false(meet(&label[i], &label[k]));
            assert_true(label[i].x0 >= 0 && label[i].x1 <= 1);
        }
        plot_labels_free(&l);
    }
}

TEST(without_memory_it_says_so)
{
    struct plot_labels l = {0};
    double x, y;
    bool right;

    lw_alloc_fail_at(1);
    assert_int_equal(plot_labels_place(&l, 0.5, 0.5, 0.1, 0.1, &x, &y, &right, &err), LW_ENOMEM);
    lw_alloc_fail_at(0);
    plot_labels_free(&l);
    assert_int_equal(lw_alloc_live(), 0);
}
