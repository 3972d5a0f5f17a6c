#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/steps/cross_rank.h"

/* How long a run would take if all its ranks were like the median one, and which rank is to blame
 * that it does not; see docs/design/rank_report.md. */
struct traces_alike_rank {
    int32_t rank;
    int64_t own_ns;   /* between its collectives, without waiting and transfers */
    double slowdown;  /* the others like the median, it as recorded, over all like the median */
};

struct traces_alike {
    bool known;           /* false: no collective that all ranks could be matched in */
    int64_t recorded_ns, simulated_ns, alike_ns;
    int32_t n, worst;     /* worst: into v */
    struct traces_alike_rank *v;
};

/* lists[n] as traces_cross_rank_build left them; ends_ns[n] the last device end of each, starts_ns
 * the first start. Memory is the arena's. */
enum lw_status traces_alike_find(const struct traces_comm_list *lists, int32_t n,
                                 const struct traces_cross_rank *cross, const int64_t *starts_ns,
                                 const int64_t *ends_ns, struct lw_arena *arena,
                                 struct traces_alike *out, struct lw_err *err);
