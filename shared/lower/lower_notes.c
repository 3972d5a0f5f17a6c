/* What a plan tells people: the decisions of a lowering and the rules after them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/lower/compat.h"
#include "shared/lower/lower.h"
#include "shared/lower/lower_steps.h"
#include "shared/lower_ops/writer.h"
#include "shared/workload/sparse.h"

static void note_rule(const struct lw_part *d, struct lw_builder *b)
{
    const struct lw_bucket_rules *r = &d->rules;
    const char *policy = d->s->zero == 3 ? "ZeRO-3" : lw_bucket_policy_name(d->s->bucket_policy);

    lw_builder_note(b, "buckets: %s, %s%s", policy, r->limited ? "limits " : "", r->why);
    if (r->n_rebuilt > 0)
        lw_builder_note(b, "buckets: %d synchronised %s on one bucket per dtype and device, "
                              "then rebuilt in ready order", r->n_initial_passes,
                        r->n_initial_passes == 1 ? "backward" : "backwards");
    else if (r->limited && !r->initial_in_ready_order)
        lw_builder_note(b, "buckets: registration order, the list reversed, never rebuilt%s",
                        d->s->find_unused ? " (unused parameters are looked for each step)" : "");
    if (r->rebuilt_from_behind)
        lw_builder_note(b,
                        "buckets: rebuilt from the last ready gradient on, the list reversed: the "
                        "first limit holds for the last bucket (DDP_SET_LAST_BUCKET_CAP=1)");
    if (r->first_after_backward && d->s->static_graph)
        lw_builder_note(b, "static graph: the first step only records; it reduces everything "
                              "after its backward");
}

static void note_buckets(const struct lw_part *d, struct lw_builder *b)
{
    const struct lw_bucket_rules *r = &d->rules;

    note_rule(d, b);
    if (r->used_map != LW_MAP_NEVER)
        lw_builder_note(b, "unused parameters: a map of %d x 4 bytes is all-reduced %s", d->n_grads,
                        r->used_map == LW_MAP_EACH ? "after the last bucket"
                                                   : "in the first step, before the buckets");
    if (d->n_unused > 0)
        lw_builder_note(b, "unused parameters: %d, copied as zeros at the first ready gradient",
                        d->n_unused);
    lw_builder_note(b, "launch order: %s",
                    d->s->launch_order == LW_LAUNCH_IN_ORDER
                        ? "in order (a late bucket holds back those after it)"
                        : "as buckets complete (ranks must complete them alike)");
    lw_builder_note(b, "averaging: gradients are scaled by 1/%lld %s",
                    (long long)(d->s->dp * d->s->cp),
                    lw_part_averaging(d));
    for (int32_t i = 0; i < d->n_empty; i++)
        lw_builder_note(b, "compat fairscale: the bucket of rank %d is empty and is reduced too, "
                           "after the backward", d->empty[i]);
    if (d->storage != LW_STORED_COPIED)
        lw_builder_note(b, "buckets hold the gradients themselves: nothing is copied out");
    if (d->s->comm_hook != LW_HOOK_NONE)
        lw_builder_note(b, "comm hook: buckets are sent as %s, cast back on a copy stream",
                        lw_dtype_name(lw_strategy_wire_dtype(d->s, LW_F32)));
    if (!d->s->overlap)
        lw_builder_note(b, "overlap off: every all-reduce waits for the end of the backward");
}

static const char *rule_of(const struct lw_part *d, char *buf, size_t room)
{
    bool units = d->storage == LW_STORED_UNITS && d->s->shard_policy == LW_SHARD_FLAT;

    snprintf(buf, room, "%s: %s", lw_shard_policy_name(d->s->shard_policy),
             units ? "every unit cut into equal shares" : lw_shard_policy_help(d->s->shard_policy));
    return buf;
}

static const char *narrowed(const struct lw_lowering *l)
{
    static const char *const as[LW_N_DTYPES] = {
        [LW_F16] = "as f16, cast back by all, the owner too",
        [LW_BF16] = "as bf16, cast back by all, the owner too"};
    bool any = false;

    for (int32_t q = 0; q < l->n_parts; q++)
        for (int32_t i = 0; i < l->parts[q].shards.n_buffers; i++) {
            enum lw_dtype own = l->parts[q].shards.buffers[i].dtype;
            any = any || lw_part_weights_dtype(l->s, own) != own;
        }
    return any ? as[l->s->broadcast_dtype] : "in their own dtype";
}

static void note_units(const struct lw_part *d, struct lw_builder *b)
{
    const struct lw_part_shards *h = &d->shards;
    int32_t n_kept = 0;
    char ahead[32] = "the whole part and the next one";

    for (int32_t i = 0; i < h->n_buffers; i++)
        n_kept += h->buffers[i].module < 0;
    if (d->s->prefetch_elements > 0)
        snprintf(ahead, sizeof ahead, "%" PRId64 " elements", d->s->prefetch_elements);
    else if (d->s->prefetch >= 0 || d->s->pp == 1 || d->s->zero == 3)
        snprintf(ahead, sizeof ahead, "%" PRId64,
                 d->s->prefetch >= 0 ? d->s->prefetch : LW_PREFETCH_DEFAULT);
    else if (lw_part_gathers_on_demand(d->s))
        snprintf(ahead, sizeof ahead, "none");
    const char *many = h->n_buffers == 1 ? "" : "s";
    lw_builder_note(b, "gradients: %d %s%s%s, reduce-scattered; each member updates its share",
                    h->n_buffers, d->s->zero == 3 ? "unit" : "bucket", many,
                    d->s->zero == 3 ? ", one per module, dtype and device" : "");
    if (d->s->zero_group > 0)
        lw_builder_note(b, "shards lie on groups of %" PRId64 " ranks; each group holds a replica, "
                           "and gradients are summed over the replicas%s%s", d->s->zero_group,
                        d->s->micro_batches == 1 || !lw_part_reduces_each(d) ? ""
                        : d->s->sync_each ? ", in every micro-batch"
                                          : ", after the last micro-batch",
                        d->s->late_replicas ? ", when the backward has ended" : "");
    if (lw_part_gathers_ahead(d))
        lw_builder_note(b,
                        "weights: %d flat buffer%s all-gathered before the first forward of the "
                        "next step that uses %s, %s ahead",
                        n_kept, n_kept == 1 ? " is" : "s are", n_kept == 1 ? "it" : "them", ahead);
    else if (d->s->zero == 2)
        lw_builder_note(b, "weights: all-gathered after the optimizer, %d flat buffer%s", n_kept,
                        n_kept == 1 ? "" : "s");
    if (d->s->zero == 3)
        lw_builder_note(
            b,
            "weights: %d units are all-gathered before use, %s ahead%s; %d, of "
            "parameters below %" PRId64 " elements, stay and are all-gathered after "
            "the optimizer",
            h->n_buffers - n_kept, ahead,
            d->s->reshard            ? ", freed after forward and backward"
            : lw_part_keeps_units(d) ? ", freed after the step's last backward"
                                     : ", freed after the backward",
            n_kept, d->s->persist);
    if (d->s->micro_batches > 1 || d->s->no_sync > 0)
        lw_builder_note(b,
                        lw_part_reduces_each(d)
                            ? "accumulation: every micro-batch is reduced, and owners add up"
                            : "accumulation: gradients stay whole until the last backward, and are "
                              "reduced then");
}

static void note_sparse(const struct lw_lowering *l)
{
    for (int32_t q = 0; q < l->n_parts; q++) {
        const struct lw_part *d = &l->parts[q];
        for (int32_t i = 0; i < d->w->n_sparse; i++) {
            const struct lw_sparse *x = lw_part_sparse(d, d->w->sparse[i].param);
            if (x)
                lw_builder_note(
                    l->b,
                    "sparse: '%s' is reduced by all-gathers of shapes, indices and values, "
                    "%" PRId64 " of its %" PRId64 " rows from each rank, and added up on a "
                    "copy stream",
                    lw_param_at(d->w, x->param).name, lw_part_rows(d, x, 1),
                    lw_param_at(d->w, x->param).numel / x->row_numel);
        }
    }
}

static void note_shards(const struct lw_lowering *l)
{
    const struct lw_part *d = lw_lower_speaker(l);
    const struct lw_part_shards *h = &d->shards;
    struct lw_builder *b = l->b;
    int64_t padding = 0;
    int32_t n_buffers = 0;
    char rule[160];

    if (h->n == 0)
        return;
    if (d->storage == LW_STORED_UNITS)
        note_units(d, b);
    for (int32_t q = 0; q < l->n_parts; q++) {
        padding += l->parts[q].shards.padding;
        n_buffers += l->parts[q].shards.n_buffers;
    }
    if (l->n_parts == 1)
        lw_builder_note(b, "shards: %s; the fullest member updates %" PRId64 " of %" PRId64
                           " elements, which is the optimizer's time for all",
                        rule_of(d, rule, sizeof rule), h->most_owned, h->n_elements);
    else
        lw_builder_note(b, "shards, part by part: %s; a stage's optimizer takes the time of its "
                           "fullest member", rule_of(d, rule, sizeof rule));
    if (padding > 0)
        lw_builder_note(b, "shards: %" PRId64 " elements of padding make the shares equal",
                        padding);
    if (d->storage == LW_STORED_UNITS)
        return;
    lw_builder_note(b, "weights: sent after the optimizer %s, %d %s, all waited for",
                    narrowed(l), n_buffers,
                    h->n_buffers > 0 && h->buffers[0].owner < 0 ? "flat buffers all-gathered"
                                                                : "flat buffers broadcast by their "
                                                                  "owners");
}

static void note_part(const struct lw_lowering *l, int32_t q)
{
    const struct lw_part *d = &l->parts[q];
    int64_t elements = 0;
    char forward[32], backward[32], second[32] = "", times[96] = "";

    for (int32_t i = 0; i < d->w->n_params; i++)
        elements += lw_param_at(d->w, i).tied < 0 ? lw_param_at(d->w, i).numel : 0;
    if (l->mirrored)
        snprintf(second, sizeof second, " and %d", l->pp - 1 - q);
    if (!l->given->timeless)
        snprintf(times, sizeof times, ", forward %s, backward %s",
                 lw_format_ps(forward, lw_workload_forward_ps(d->w)),
                 lw_format_ps(backward, lw_workload_backward_ps(d->w)));
    lw_builder_note(l->b, "part %d on pipeline rank %d%s: modules %d to %d, %" PRId64 " elements%s",
                    q, lw_grid_rank_of(&l->grid, q, 0), second, d->first_module,
                    d->first_module + d->w->n_modules - 1, elements, times);
}

static void note_partition(const struct lw_lowering *l)
{
    const struct lw_strategy *s = l->s;
    char time[32], size[32];

    lw_builder_note(l->b, "partition: %s", lw_partition_help(s->partition));
    if (s->partition == LW_PARTITION_EXACT)
        lw_builder_note(l->b, "partition: the slowest part takes %s a micro-batch%s",
                        lw_format_ps(time, l->slowest_part),
                        s->weigh_transfers ? ", with activation and gradient at both ends by the "
                                             "cluster's cost" : ", transfers not weighed");
    if (s->stage_bytes >= 0)
        lw_builder_note(l->b, "partition: no stage holds more than %s, with the activations of as "
                              "many micro-batches as the schedule keeps",
                        lw_format_bytes(size, s->stage_bytes));
    if (s->pin_first > 0 || s->pin_last > 0)
        lw_builder_note(l->b, "partition: the first %lld modules stay on the first stage, the last "
                              "%lld on the last", (long long)s->pin_first, (long long)s->pin_last);
}

static void note_pairs(const struct lw_lowering *l)
{
    const char *why = NULL;

    if (l->pairs)
        lw_builder_note(l->b, "units of a forward and a backward: each runs its compute beside the "
                              "other's all-to-alls of experts");
    else if (l->ep > 1 && l->pp > 1 && l->s->expert_overlap == LW_EXPERT_OVERLAP_AUTO &&
             lw_schedule_pairs_of(l->s->schedule) == LW_PAIRS_BY_RULE &&
             !lw_strategy_overlaps_experts(l->s, &why))
        lw_builder_note(l->b, "units of a forward and a backward: their all-to-alls of experts are "
                              "exposed, because %s", why);
}

static void note_pipeline(const struct lw_lowering *l)
{
    struct lw_builder *b = l->b;

    if (l->pp == 1)
        return;
    lw_builder_note(b, "pipeline: %s, %d micro-batches, %d parts on %d ranks", lw_schedule_name(
                        l->s->schedule), l->grid.n_micro_batches, l->n_parts, l->pp);
    if (l->s->drain_every > 0)
        lw_builder_note(b, "drained after each %lld micro-batches", (long long)l->s->drain_every);
    note_partition(l);
    for (int32_t q = 0; q < l->n_parts; q++)
        note_part(l, q);
    if (l->calls.n_ranks > 0)
        lw_builder_note(b, "messages: combined calls of sends and receives%s",
                        l->s->compat == LW_COMPAT_COLOSSALAI ? ", each waited for" : "");
    else
        lw_builder_note(b, "messages: a communicator per direction; they go in the order in which "
                           "their senders finish if all stages take the same time");
    if (l->mirrored)
        lw_builder_note(b, "two directions: both holders of a part reduce its gradients, after "
                           "the last backward");
}

static void note_buffers(const struct lw_lowering *l)
{
    int32_t n = 0, n_calls = 0;

    for (int32_t q = 0; q < l->n_parts; q++) {
        n += l->parts[q].n_buffers;
        n_calls += l->parts[q].buffers.n_buckets;
    }
    if (n == 0)
        return;
    lw_builder_note(l->b,
                    "buffers: %d are broadcast from %s before a synchronised forward, in %d%s", n,
                    lw_is_plain(l) ? "rank 0" : "the first rank of each data group", n_calls,
                    l->s->compat == LW_COMPAT_FAIRSCALE ? ", one by one" : " of at most 250 MiB");
    if (l->n_parts > 1)
        lw_builder_note(l->b,
                        "buffers: each with the part whose parameters share most of its dotted "
                        "name");
}

static void note_tied(const struct lw_lowering *l)
{
    for (int32_t s = 0; s < l->n_tied; s++)
        lw_builder_note(l->b,
                        "tied: '%s' has copies at %d stages; their gradients are summed over an "
                        "embedding communicator after the reduction, before the optimizer",
                        lw_param_at(l->w, l->tied[s].first).name, l->tied[s].n_copies);
}

static void note_method(const struct lw_lowering *l)
{
    long long n = (long long)l->s->recompute_layers;

    if (l->s->recompute_method == LW_RECOMPUTE_UNIFORM && n > 1)
        lw_builder_note(l->b,
                        "recomputation: groups of %lld modules keep their input; before the "
                        "backward of the last one all forwards of the group run again", n);
    if (l->s->recompute_method == LW_RECOMPUTE_EVERY && n > 1)
        lw_builder_note(l->b, "recomputation: of each %lld-th module of a part; the others keep "
                              "their activations", n);
}

/* What a rank takes of the modules that a tensor group splits, and where it exchanges. */
static void say_split(const struct lw_lowering *l, char *out, size_t size)
{
    bool kernels = false, measured = false;

    for (int32_t m = 0; m < l->w->n_modules; m++)
        if (lw_module_at(l->w, m)->tp_split != LW_TP_REPLICATED)
            *(lw_has_kernels(l->w, lw_module_at(l->w, m)) ? &kernels : &measured) = true;
    int at = snprintf(out, size, "%s%s", kernels ? "split modules take what one rank takes for "
                                                   "their kernels, and exchange activations at the "
                                                   "kernels that need them" : "",
                      kernels && measured ? "; measured ones: " : "");
    if (measured)
        snprintf(out + at, size - (size_t)at, "split modules take their whole part and 1/%d of the "
                                              "rest; activations are summed in equal steps of a "
                                              "module", l->tp);
}

static void note_tensor_group(const struct lw_lowering *l)
{
    static const char *const overlaps[LW_N_TP_OVERLAPS] = {
        [LW_TP_OVERLAP_OFF] = "",
        [LW_TP_OVERLAP_BACKWARD] = ", in the backward beside the weights' gradients",
        [LW_TP_OVERLAP_PIECES] = ", in the backward beside the weights' gradients, and other "
                                 "collectives in four pieces of the products beside them",
        [LW_TP_OVERLAP_COPIES] = ", in the backward beside the weights' gradients, and other "
                                 "collectives in four pieces of the products beside them",
    };
    char split[320];

    say_split(l, split, sizeof split);
    if (l->tp > 1)
        lw_builder_note(l->b, "tensor parallelism: %s, each waited for%s%s; %s", split,
                        overlaps[l->s->tp_overlap],
                        l->s->tp_overlap != LW_TP_OVERLAP_COPIES ? ""
                        : l->s->sequence_parallel ? ", by copy engines inside a node"
                                                  : ", which are sums: copy engines move none",
                        l->s->sequence_parallel
                            ? "sequence parallelism: all-gathers and "
                              "reduce-scatters in place of sums, nothing is whole"
                            : "no sequence parallelism");
    if (lw_scatters_messages(l))
        lw_builder_note(
            l->b, "messages: each tensor rank sends 1/%d, all-gathered where it is used", l->tp);
}

static bool has_window(const struct lw_workload *w)
{
    for (int32_t k = 0; k < w->n_kernels; k++)
        if (w->kernels[k].kind == LW_KERNEL_ATTENTION &&
            lw_is_window(w->kernels[k].n, w->kernels[k].m))
            return true;
    return false;
}

static void note_other_groups(const struct lw_lowering *l)
{
    if (l->ep > 1)
        lw_builder_note(
            l->b,
            "expert parallelism: 1/%d of the experts a rank%s, tokens spread evenly; all-to-all "
            "before and after the experts, forward and backward%s; their gradients are reduced "
            "over %d ranks",
            l->ep,
            lw_expert_width(l) > 1 ? ", each whole, shared over the tensor group too" : "",
            l->pairs ? "" : ", beside no compute",
            l->parts[0].n_expert_members);
    if (l->cp > 1 && l->s->cp_comm == LW_CP_P2P)
        lw_builder_note(l->b,
                        "context parallelism: 1/%d of every sequence's tokens, causal work evened "
                        "out; a module attends in %d equal steps, beside each a block of keys and "
                        "values goes round the group; their gradients follow them in the backward",
                        l->cp, l->cp);
    if (l->cp > 1 && l->s->cp_comm == LW_CP_P2P && has_window(l->w))
        lw_builder_note(l->b,
                        LW_ASSUMPTION "--cp-comm-type p2p takes attention to a window too; "
                                      "Transformer Engine refuses it, with all-gather it runs");
    if (l->cp > 1 && l->s->cp_comm != LW_CP_P2P)
        lw_builder_note(l->b,
                        "context parallelism: 1/%d of every sequence's tokens, causal work evened "
                        "out; keys and values are all-gathered before a module attends, their "
                        "gradients reduce-scattered after its backward",
                        l->cp);
}

static void note_recomputation(const struct lw_lowering *l)
{
    char parts[LW_AGAIN_TEXT];

    if (l->s->recompute == LW_RECOMPUTE_FULL)
        lw_builder_note(l->b,
                        "recomputation: each module's forward again, before its backward; not of "
                        "modules that keep as much either way");
    note_method(l);
    if (l->s->again_parts != 0)
        lw_builder_note(l->b, lw_workload_selects_nothing(l->w)
                                  ? LW_ASSUMPTION "--recompute-modules %s changes nothing: none of "
                                                  "these keeps a tensor of its own"
                                  : "recomputation: of each module the parts %s, before its "
                                    "backward",
                        lw_again_text(l->s->again_parts, parts));
    else if (l->s->recompute == LW_RECOMPUTE_SELECTIVE && lw_workload_selects_nothing(l->w))
        lw_builder_note(l->b, LW_ASSUMPTION
                        "--recompute selective changes nothing: what it would compute again is not "
                        "kept (fused attention keeps no scores); --recompute full saves memory, "
                        "and so do parts of --recompute-modules");
    else if (l->s->recompute == LW_RECOMPUTE_SELECTIVE)
        lw_builder_note(l->b,
                        "recomputation: what the workload names of a module's forward again, in "
                        "front of its backward");
}

/* Where a gradient is complete in a backward that collectives cut: of kernels by their order. */
static bool completes_by_times(const struct lw_workload *w)
{
    bool measured = !w->by_kernels || !w->grad_kernel;

    for (int32_t i = 0; i < w->n_params && !measured; i++)
        measured = lw_param_at(w, i).ready_ps >= 0 &&
                   !lw_has_kernels(w, lw_module_at(w, lw_param_at(w, i).module));
    return measured;
}

/* What may be another decision on a machine with other times. */
static void note_times(const struct lw_lowering *l)
{
    const struct lw_strategy *s = l->s;
    bool cut = l->pp > 1, reduces = l->parts[0].n_members > 1;

    if (cut && (s->partition == LW_PARTITION_EXACT || s->partition == LW_PARTITION_PIPEDREAM))
        lw_builder_from_times(l->b, s->partition == LW_PARTITION_EXACT ? "--partition exact"
                                                                       : "--partition pipedream");
    if (cut && s->weigh_transfers)
        lw_builder_from_times(l->b, "--weigh-transfers on");
    if (reduces && s->bucket_policy == LW_BUCKET_MG_WFBP)
        lw_builder_from_times(l->b, "--bucket-policy mg-wfbp");
    if (reduces && s->bucket_policy == LW_BUCKET_OPTIMAL)
        lw_builder_from_times(l->b, "--bucket-policy optimal");
    if (reduces && s->launch_order == LW_LAUNCH_COMPLETION)
        lw_builder_from_times(l->b, "--launch-order completion-order");
    if ((l->tp > 1 || l->cp > 1) && l->parts[0].back.n_ready > 0 &&
        completes_by_times(l->w))
        lw_builder_from_times(l->b, "where gradients are complete between a module's collectives");
}

static void note_memory(const struct lw_lowering *l)
{
    bool kept = true;

    for (int32_t q = 0; q < l->n_parts; q++)
        kept = kept && l->parts[q].work.tells_kept;
    lw_builder_note(l->b, "memory: parameters, gradients, buckets; %s; %s",
                    l->w->optimizer == LW_OPTIMIZER_UNKNOWN
                        ? "no optimizer state, since the workload does not name its optimizer"
                        : lw_optimizer_name((int)l->w->optimizer),
                    kept ? "activations from the forward to the end of its backward"
                         : "no activations, since the workload does not give what modules keep");
}

/* What the workload leaves out or assumes holds of the plan's times and memory too, which its file
 * carries to where the workload is not. */
static void note_assumptions(const struct lw_lowering *l)
{
    for (int32_t i = 0; i < l->w->n_notes; i++)
        if (strncmp(l->w->notes[i], LW_ASSUMPTION, strlen(LW_ASSUMPTION)) == 0)
            lw_builder_note(l->b, "%s", l->w->notes[i]);
}

void lw_lower_notes(const struct lw_lowering *l)
{
    const struct lw_part *d = lw_lower_speaker(l);
    const struct lw_backward *back = &d->back;
    struct lw_builder *b = l->b;
    int64_t gap = 0;

    lw_builder_note(b, "ready order: %s",
                    back->order_known ? "from the workload"
                                      : "unknown to the workload; reverse registration is assumed");
    if (back->n_untimed > 0)
        lw_builder_note(b, "ready times: %d of %d gradients have none and count as ready at the "
                           "end of their module's backward", back->n_untimed, back->n_ready);
    note_pipeline(l);
    note_pairs(l);
    note_tensor_group(l);
    note_other_groups(l);
    note_recomputation(l);
    note_tied(l);
    if (d->n_members > 1)
        note_buckets(d, b);
    else
        lw_builder_note(b, lw_is_plain(l) ? "one rank: nothing is reduced"
                                          : "one data-parallel rank: nothing is reduced over data");
    note_sparse(l);
    note_shards(l);
    note_buffers(l);
    for (int i = 0; i < LW_N_GAPS; i++)
        gap += l->w->gap_ps[i];
    if (gap > 0)
        lw_builder_note(b, "host gaps: on the compute stream; those before forward and backward "
                           "in every micro-batch, those around the optimizer once a step");
    if (l->w->n_products > 0 && !lw_products_fit(l->w, l->s))
        lw_builder_note(b, "products: shapes are of tensor groups of %d and context groups of %d; "
                           "the plan has none (make the workload with --tp %" PRId64 " --cp %"
                           PRId64 ")", (int)lw_group_size(l->w->timed_for.tp),
                        (int)lw_group_size(l->w->timed_for.cp), l->s->tp, l->s->cp);
    note_memory(l);
    note_times(l);
    note_assumptions(l);
    lw_compat_notes(d->s, b);
}
