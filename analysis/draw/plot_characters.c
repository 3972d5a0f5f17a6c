/* A timeline for the terminal: a line of characters per stream, a letter per kind of work, the last
 * digit of its bucket per collective, '.' while it waits for the last rank. Work that is shorter
 * than a character has as many characters as it adds up to. Under communication is a line of where
 * it is exposed: '!' for half of the character's time and more, ':' for a tenth, '.' for less. */
#include <string.h>

#include "analysis/draw/step_bars.h"
#include "analysis/draw/plot_style.h"

enum { LABEL = 18, LETTERS = 128 };

struct canvas {
    char *cells;
    lw_ps *filled; /* [LETTERS][columns]: time of each character in a cell */
    int columns;
    double per_cell;
    bool used[LETTERS];
};

static void fill(struct canvas *c, lw_ps start, lw_ps end, char what)
{
    for (int i = (int)((double)start / c->per_cell); i < c->columns; i++) {
        lw_ps from = (lw_ps)(i * c->per_cell), to = (lw_ps)((i + 1) * c->per_cell);
        lw_ps part = (end < to ? end : to) - (start > from ? start : from);
        if (from >= end)
            break;
        if (part > 0)
            c->filled[what * c->columns + i] += part;
    }
}

/* The letters of data that moves share an account: collectives of many buckets are drawn to scale
 * together. */
static int account_of(int letter, bool comm)
{
    return comm && letter != ' ' && letter != '.' ? 0 : letter;
}

/* Error diffusion: what is in a character's time goes to the accounts of its letters, and the
 * character to the letter to whose account most is due. In a row of communication data that moves
 * after FAR columns without any is visible in any case. */
enum { FAR = 6 };

static void diffuse(struct canvas *c, bool comm)
{
    double due[LETTERS] = {0};
    int last = -FAR;

    for (int i = 0; i < c->columns; i++) {
        double rest = c->per_cell;
        int best = -1, data = -1;
        for (int l = '!'; l < LETTERS; l++) {
            double time = (double)c->filled[l * c->columns + i];
            rest -= time;
            due[account_of(l, comm)] += time;
            if (time > 0 && account_of(l, comm) == 0 &&
                (data < 0 || time > (double)c->filled[data * c->columns + i]))
                data = l;
        }
        rest = rest > c->per_cell / 100 ? rest : 0;
        due[' '] += rest;
        for (int l = ' '; l < LETTERS; l++)
            if ((l == ' ' ? rest : (double)c->filled[l * c->columns + i]) > 0 &&
                (best < 0 || due[account_of(l, comm)] > due[account_of(best, comm)]))
                best = l;
        if (data >= 0 && (i - last >= FAR || account_of(best, comm) == 0)) {
            best = data;
            last = i;
        }
        c->cells[i] = (char)best;
        due[account_of(best, comm)] -= c->per_cell;
    }
}

/* Parts of strips in a cell add up. */
static void add(struct canvas *c, lw_ps start, lw_ps end)
{
    for (int i = (int)((double)start / c->per_cell); i < c->columns; i++) {
        lw_ps from = (lw_ps)(i * c->per_cell), to = (lw_ps)((i + 1) * c->per_cell);
        if (from >= end)
            break;
        c->filled[i] += (end < to ? end : to) - (start > from ? start : from);
    }
}

static void show_shares(struct canvas *c)
{
    for (int i = 0; i < c->columns; i++) {
        double share = (double)c->filled[i] / c->per_cell;
        c->cells[i] = share >= 0.5 ? '!' : share >= 0.1 ? ':' : share > 0 ? '.' : ' ';
    }
}

/* One character a kind, none of which is another's, a digit, or one of waiting and exposure. Those
 * of two letters elsewhere have one of their own here. */
static char letter_of(enum lw_op_kind kind)
{
    static const char own[LW_N_OP_KINDS] = {
        [LW_OP_COPY_IN] = '<',        [LW_OP_COPY_OUT] = '>',    [LW_OP_CAST] = 'c',
        [LW_OP_ALL_REDUCE] = 'A',     [LW_OP_REDUCE_SCATTER] = 's', [LW_OP_ALL_GATHER] = 'G',
        [LW_OP_BROADCAST] = 'b',      [LW_OP_ALL_TO_ALL] = 'x',  [LW_OP_EVENT_RECORD] = 'e',
        [LW_OP_EVENT_WAIT] = 'w',     [LW_OP_HOST_SYNC] = 'h',   [LW_OP_LOAD] = '(',
        [LW_OP_STORE] = ')',
    };

    return own[kind] ? own[kind] : lw_op_letter(kind)[0];
}

static char letter(const struct picture_bar *b)
{
    if (b->comm && b->bucket >= 0)
        return (char)('0' + b->bucket % 10);
    return b->look == LOOK_RECOMPUTE ? picture_letter(b) : letter_of((enum lw_op_kind)b->kind);
}

static void clear(struct canvas *c)
{
    memset(c->cells, ' ', (size_t)c->columns);
    memset(c->filled, 0, LETTERS * (size_t)c->columns * sizeof *c->filled);
}

static void put_line(const struct canvas *c, FILE *f, const char *label)
{
    int n = c->columns;
    while (n > 0 && c->cells[n - 1] == ' ')
        n--;
    fprintf(f, "%*.*s |%.*s\n", LABEL, LABEL, label, n, c->cells);
}

static void put_row(struct canvas *c, const struct picture *pic, int32_t row, FILE *f)
{
    bool exposed = false, comm = false;

    clear(c);
    for (int64_t i = 0; i < pic->n_bars; i++) {
        const struct picture_bar *b = &pic->bars[i];
        lw_ps moves = b->comm && b->all_in > b->start ? b->all_in : b->start;
        if (b->row != row)
            continue;
        fill(c, b->start, moves, '.');
        fill(c, moves, b->end, letter(b));
        comm |= b->comm;
    }
    diffuse(c, comm);
    for (int i = 0; i < c->columns; i++)
        c->used[(int)c->cells[i]] = true;
    put_line(c, f, pic->rows[row].label);
    clear(c);
    for (int64_t i = 0; i < pic->n_strips; i++)
        if (pic->strips[i].row == row) {
            add(c, pic->strips[i].start, pic->strips[i].end);
            exposed = true;
        }
    show_shares(c);
    if (exposed)
        put_line(c, f, "exposed");
}

static void put_heading(const struct canvas *c, FILE *f, const char *run,
                        const struct picture_step *step)
{
    char time[32], before[32], text[96], cut[512];
    int n = snprintf(text, sizeof text, ", this step %s", lw_format_ps(time, step->span));

    if (step->span - step->length > step->span / 1000)
        n += snprintf(text + n, sizeof text - (size_t)n, " (%s of it receives before 0)",
                      lw_format_ps(before, step->span - step->length));
    fprintf(f, "%s%s\n", plot_cut_parts(cut, sizeof cut, run, c->columns + LABEL + 3 - n), text);
}

/* What the letters mean, of those that were drawn. */
static void put_legend(const struct canvas *c, bool exposed, FILE *f)
{
    const char *comma = "";
    bool buckets = false;

    for (int k = 0; k < LW_N_OP_KINDS; k++)
        if (c->used[(int)letter_of((enum lw_op_kind)k)]) {
            fprintf(f, "%s%c %s", comma, letter_of((enum lw_op_kind)k),
                    lw_op_name((enum lw_op_kind)k));
            comma = ", ";
        }
    for (int digit = '0'; digit <= '9'; digit++)
        buckets |= c->used[digit];
    fprintf(f, "%s%s%s%s\n", c->used['r'] ? ", r recompute" : "", buckets ? ", digits buckets" : "",
            c->used['.'] ? ", . waiting for the last rank" : "",
            exposed ? ", exposed: ! half, : a tenth, . less" : "");
}

static void put_rows(struct canvas *c, const struct picture *pic, const struct plot_names *names,
                     FILE *f)
{
    char buf[32];

    for (int32_t r = 0; r < pic->n_rows; r++) {
        int32_t run = pic->rows[r].run;
        if (r == 0 || pic->rows[r - 1].run != run) {
            fputs(r ? "\n" : "", f);
            put_heading(c, f, names->runs[run], &pic->step[run]);
        }
        if (pic->rows[r].group[0])
            fprintf(f, "%s\n", pic->rows[r].group);
        put_row(c, pic, r, f);
    }
    fprintf(f, "%*s +%.*s\n", LABEL, "", c->columns,
            "--------------------------------------------------------------------------------"
            "--------------------------------------------------------------------------------"
            "--------------------------------------------------------------------------------");
    fprintf(f, "%*s 0%*s\n", LABEL, "", c->columns - 1, lw_format_ps(buf, pic->most));
    put_legend(c, pic->n_strips > 0, f);
}

enum lw_status plot_characters(struct lw_store *s, const struct lw_plot *p, FILE *f,
                               struct lw_err *err)
{
    struct picture_view view = {p->runs, p->n_runs, p->step, p->max_ranks};
    struct picture pic;
    struct canvas c = {.columns = (p->width > LABEL + 30 ? p->width : 100) - LABEL - 3};
    struct plot_names names;

    c.columns = c.columns > 240 ? 240 : c.columns;
    LW_TRY(plot_names_make(p->runs, p->n_runs, "", &names, err));
    enum lw_status st = picture_read(s, &view, &pic, err);
    if (st != LW_OK) {
        plot_names_free(&names);
        return st;
    }
    c.per_cell = (double)(pic.most > 0 ? pic.most : 1) / c.columns;
    c.cells = lw_alloc((size_t)c.columns);
    c.filled = lw_calloc(LETTERS * (size_t)c.columns, sizeof *c.filled);
    st = c.cells && c.filled ? LW_OK : lw_fail_nomem(err);
    if (st == LW_OK)
        put_rows(&c, &pic, &names, f);
    plot_names_free(&names);
    lw_free(c.cells);
    lw_free(c.filled);
    picture_free(&pic);
    return st;
}
