#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What a token's experts are chosen from, and how many there are. Each of n places (ranks, or
 * nodes) has as many of the experts as the others. */
struct lw_routing {
    int32_t copies;  /* experts of a token; 0: its copies to one place do not travel once */
    int32_t experts; /* of which they are chosen, none twice; 0 = not known: one may be again */
    int32_t groups, topk_groups; /* of so many of so many equal groups alone (node-limited routing:
                                  * DeepSeek-V3, arXiv 2412.19437, 2.1.2); 0 = of all */
    bool in_turn; /* with experts: token t has the K from K t on, modulo E, as a program whose
                   * router is balanced by counting gives them (NVIDIA-NeMo/Automodel@5e55eca63,
                   * nemo_automodel/components/moe/layers.py, FakeBalancedGate) */
};

/* Of the copies of a token to n places at random, those that are the first to their place. With K
 * of E experts, no two the same, a place with E/n of them gets none with C(E-E/n, K) / C(E, K), so
 * n (1 - that) / K; with E not known n (1 - (1 - 1/n)^K) / K. 1 where nothing travels once.
 * In turn: the mean over the tokens of the places from that of the first expert to that of the
 * last, expert e at place e n / E, rounded down. */
double lw_first_copies(int32_t n, const struct lw_routing *r);
