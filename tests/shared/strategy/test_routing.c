/* Places that the copies of a token go to, counted over every choice of its experts. */
#include "shared/strategy/routing.h"

#include <math.h>

#include "tests/lib/unit.h"

static int bits(unsigned x)
{
    int n = 0;

    for (; x; x &= x - 1)
        n++;
    return n;
}

/* Of n places, those that have one of the experts of a choice; expert e is of place e n / E. */
static int places(unsigned choice, int experts, int n)
{
    unsigned have = 0;

    for (int e = 0; e < experts; e++)
        if (choice >> e & 1)
            have |= 1U << (e * n / experts);
    return bits(have);
}

/* Experts of the groups of a set. */
static unsigned members(unsigned groups, int experts, int n_groups)
{
    unsigned of = 0;

    for (int e = 0; e < experts; e++)
        if (groups >> (e * n_groups / experts) & 1)
            of |= 1U << e;
    return of;
}

/* The mean over all choices of K experts of M groups; M of the groups are chosen first. */
static double counted(int n, const struct lw_routing *r)
{
    int G = r->groups > 0 ? r->groups : 1, M = r->groups > 0 ? r->topk_groups : 1;
    double sum = 0, n_choices = 0;

    for (unsigned groups = 0; groups < 1U << G; groups++) {
        unsigned of = members(groups, r->experts, G);
        for (unsigned choice = 0; bits(groups) == M && choice < 1U << r->experts; choice++) {
            if ((choice & ~of) || bits(choice) != r->copies)
                continue;
            sum += places(choice, r->experts, n);
            n_choices++;
        }
    }
    return sum / n_choices / r->copies;
}

TEST(closed_form_is_the_mean_over_all_choices)
{
    for (int experts = 1; experts <= 12; experts++)
        for (int n = 1; n <= experts; n++)
            for (int copies = 1; copies <= experts && experts % n == 0; copies++) {
                const struct lw_routing r = {.copies = copies, .experts = experts};
                assert_true(fabs(lw_first_copies(n, &r) - counted(n, &r)) < 1e-12);
            }
}

TEST(limited_to_groups_it_is_the_mean_over_their_choices)
{
    static const struct {
        int experts, groups, topk_groups, copies, n;
    } cases[] = {
        {12, 4, 2, 3, 2},  {12, 4, 2, 3, 4}, {12, 4, 3, 4, 12}, {12, 6, 3, 4, 3},
        {12, 6, 2, 2, 2},  {12, 6, 5, 6, 6}, {12, 3, 1, 4, 3},  {12, 3, 2, 4, 6},
        {16, 8, 4, 8, 8},  {16, 8, 4, 4, 4}, {16, 4, 2, 2, 8},  {16, 8, 3, 6, 1},
        {16, 8, 4, 8, 16},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct lw_routing r = {cases[k].copies, cases[k].experts, cases[k].groups,
                                     cases[k].topk_groups};
        assert_true(fabs(lw_first_copies(cases[k].n, &r) - counted(cases[k].n, &r)) < 1e-12);
    }
}

/* Places of the experts t K to t K + K - 1, modulo E, over E tokens: of so many each expert is the
 * first as often as any other that is one at all. */
static double counted_in_turn(int n, int experts, int copies)
{
    int64_t sum = 0;

    for (int t = 0; t < experts; t++) {
        bool have[64] = {false};
        for (int k = 0; k < copies; k++)
            have[(t * copies + k) % experts * n / experts] = true;
        for (int i = 0; i < n; i++)
            sum += have[i];
    }
    return (double)sum / ((double)experts * copies);
}

TEST(in_turn_it_is_the_mean_over_the_tokens)
{
    for (int experts = 1; experts <= 48; experts++)
        for (int n = 1; n <= experts; n++)
            for (int copies = 1; copies <= experts; copies++) {
                const struct lw_routing r = {.copies = copies, .experts = experts, .in_turn = true};
                assert_true(fabs(lw_first_copies(n, &r) - counted_in_turn(n, experts, copies)) <
                            1e-12);
            }
}

/* 128 experts on eight ranks, 16 each. Eight of a token are of one rank. Six begin at an even
 * place of a rank's 16, and at 12 and 14 of 0, 2, ... 14 they reach the next: 1.25 ranks. */
TEST(in_turn_a_token_goes_to_one_rank_or_two)
{
    struct lw_routing r = {.copies = 8, .experts = 128, .in_turn = true};

    assert_true(lw_first_copies(8, &r) == 1.0 / 8);
    assert_true(lw_first_copies(2, &r) == 1.0 / 8);
    r.copies = 6;
    assert_true(fabs(lw_first_copies(8, &r) - 1.25 / 6) < 1e-12);
    r.in_turn = false; /* at random to 8 (1 - C(112,6) / C(128,6)) */
    assert_true(fabs(lw_first_copies(8, &r) - 4.4711 / 6) < 1e-4);
    r = (struct lw_routing){.copies = 8, .in_turn = true}; /* of an unknown number: at random */
    assert_true(fabs(lw_first_copies(2, &r) - 255.0 / 1024) < 1e-12);
}

/* DeepSeek-V3: 8 of 256 experts, of 4 of 8 groups. Eight nodes: 8 (1 - C(224,8)/C(256,8)) = 5.29
 * of them at random. Limited, a node is one group: 1/2 are not chosen, and of the others
 * 1 - C(96,8)/C(128,8) = 0.9073 have one: 3.63 nodes. */
TEST(a_limit_sends_to_fewer_nodes)
{
    struct lw_routing r = {.copies = 8, .experts = 256};
    double none = 1, limited = 1;

    for (int i = 0; i < 8; i++) {
        none *= (224.0 - i) / (256 - i);
        limited *= (96.0 - i) / (128 - i);
    }
    assert_true(fabs(8 * lw_first_copies(8, &r) - 8 * (1 - none)) < 1e-12);
    assert_true(fabs(8 * (1 - none) - 5.2947) < 5e-5);
    r.groups = 8;
    r.topk_groups = 4;
    assert_true(fabs(8 * lw_first_copies(8, &r) - 4 * (1 - limited)) < 1e-12);
    assert_true(fabs(4 * (1 - limited) - 3.63) < 5e-3);
    r.topk_groups = 8; /* all of them: no limit */
    assert_true(fabs(8 * lw_first_copies(8, &r) - 8 * (1 - none)) < 1e-12);
    r.groups = 5; /* groups that 256 experts do not have */
    r.topk_groups = 4;
    assert_true(fabs(8 * lw_first_copies(8, &r) - 8 * (1 - none)) < 1e-12);
}

TEST(experts_that_are_not_known_may_be_chosen_twice)
{
    struct lw_routing r = {.copies = 8};

    assert_true(fabs(lw_first_copies(2, &r) - 255.0 / 1024) < 1e-12);
    assert_true(fabs(lw_first_copies(8, &r) - 0.6564) < 1e-4);
    r.experts = 1 << 30; /* of very many, none is chosen twice anyway */
    assert_true(fabs(lw_first_copies(8, &r) - 0.6564) < 1e-4);
    r.copies = 1;
    assert_true(lw_first_copies(8, &r) == 1);
    r.copies = 0;
    assert_true(lw_first_copies(8, &r) == 1);
}

/* Places that do not divide the experts have the mean of them each. */
TEST(parts_of_an_expert_are_between_the_whole_ones)
{
    const struct lw_routing r = {.copies = 4, .experts = 128};
    double last = 0;

    for (int n = 1; n <= 128; n++) {
        double to = 4 * lw_first_copies(n, &r);
        assert_true(to > last && to <= 4 + 1e-12 && to <= n + 1e-12);
        last = to;
    }
    assert_true(fabs(last - 4) < 1e-12); /* an expert a place */
}

TEST_GROUP(NULL, NULL)
