/* Spans as comma-separated values: one line each, times in ns (rounded half up), -1 = unknown. */
#include "shared/plan/op.h"
#include "traces/export/export_chrome.h"

#include "shared/text/table.h"

static long long ns(lw_ps t)
{
    return t < 0 ? -1 : (long long)lw_ps_to_ns(t);
}

enum lw_status lw_export_csv(const struct lw_export *e, FILE *f, struct lw_err *err)
{
    const struct lw_plan *p = e->plan;

    LW_TRY(lw_export_check(e, err));
    fputs("step,pass,rank,op,kind,name,stream,communicator,bucket,bytes,ready_ns,issue_ns,start_ns,"
          "all_in_ns,end_ns\n", f);
    for (int64_t i = 0; i < e->timeline->n; i++) {
        struct lw_span s = lw_timeline_get(e->timeline, i);
        const struct lw_op *op = LW_OP(p, s.op);
        fprintf(f, "%d,%d,%d,%d,%s,", s.step, s.pass, s.rank, s.op, lw_op_name(s.kind));
        lw_csv_text(f, op->name);
        fputc(',', f);
        lw_csv_text(f, p->streams[s.stream].name);
        fputc(',', f);
        lw_csv_text(f, op->comm >= 0 ? p->comms[op->comm].name : "");
        fprintf(f, ",%d,%lld,%lld,%lld,%lld,%lld,%lld\n", op->bucket,
                (long long)lw_plan_operand(p, op, s.rank).bytes, ns(s.ready), ns(s.issue),
                ns(s.start), ns(s.all_in), ns(s.end));
    }
    return LW_OK;
}
