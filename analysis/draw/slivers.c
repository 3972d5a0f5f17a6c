/* Error diffusion along a row: each colour has an account of the time that was not drawn yet, and a
 * column goes to the colour to which most is due, as long as anything is due. Where no sliver was
 * drawn for FAR columns, debts are forgiven: a bar that stands alone is visible. */
#include "analysis/draw/slivers.h"

enum { FAR = 24 };

static void begin_row(struct slivers *s, int32_t row)
{
    s->begun = true;
    s->row = row;
    s->column = s->last_column = -1;
    s->n_colours = 0;
}

static void draw_column(struct slivers *s)
{
    int best = -1;

    if (s->column < 0)
        return;
    if (s->last_column < 0 || s->column - s->last_column > FAR)
        for (int i = 0; i < s->n_colours; i++)
            s->due[i] = s->due[i] < 0 ? 1 : s->due[i];
    for (int i = 0; i < s->n_colours; i++)
        if (s->due[i] > 0 && (best < 0 || s->due[i] > s->due[best]))
            best = i;
    if (best < 0)
        return;
    s->emit(s->ctx, s->row, s->column * s->pixel, (s->column + 1) * s->pixel, s->colour[best]);
    s->due[best] -= s->pixel;
    s->last_column = s->column;
}

static lw_ps *account(struct slivers *s, int32_t colour)
{
    for (int i = 0; i < s->n_colours; i++)
        if (s->colour[i] == colour)
            return &s->due[i];
    if (s->n_colours == SLIVERS_COLOURS) /* more than a legend has */
        return &s->due[0];
    s->colour[s->n_colours] = colour;
    s->due[s->n_colours] = 0;
    return &s->due[s->n_colours++];
}

static void put(struct slivers *s, int64_t column, lw_ps time, int32_t colour)
{
    if (column != s->column) {
        draw_column(s);
        s->column = column;
    }
    *account(s, colour) += time;
}

void slivers_add(struct slivers *s, int32_t row, lw_ps start, lw_ps end, int32_t colour)
{
    if (!s->begun || row != s->row) {
        slivers_end(s);
        begin_row(s, row);
    }
    if (end - start >= s->pixel) {
        s->emit(s->ctx, row, start, end, colour);
        return;
    }
    int64_t column = start / s->pixel;
    lw_ps border = (column + 1) * s->pixel;
    put(s, column, (end < border ? end : border) - start, colour);
    if (end > border)
        put(s, column + 1, end - border, colour);
}

void slivers_end(struct slivers *s)
{
    if (s->begun)
        draw_column(s);
    s->begun = false;
}
