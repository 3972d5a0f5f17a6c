/* Workload files: docs/formats/workload.md. The tables below are the format. */
#include <stddef.h>
#include <string.h>

#include "shared/device/file_kernels.h"
#include "shared/files/files.h"
#include "shared/files/files_field.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/buffer.h"
#include "shared/workload/product.h"
#include "shared/workload/sparse.h"

static const char *split_word(int k)
{
    static const char *const words[] = {"replicated", "column", "row", "vocab", "block"};
    return k >= 0 && k < LW_N_TP_SPLITS ? words[k] : NULL;
}

#define AT(field) offsetof(struct lw_product, field)
const struct lw_field lw_product_fields[] = {
    LW_F("batch", INT64, AT(batch), .least = 1, .most = INT64_MAX, .absent = 1),
    LW_F_MUST_INT64("m", AT(m)),
    LW_F_MUST_INT64("n", AT(n)),
    LW_F_MUST_INT64("k", AT(k)),
    LW_F_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_BOOL("fp8", AT(fp8), false),
    LW_F_BOOL("fp4", AT(fp4), false),
    LW_F_BOOL("tf32", AT(tf32), false),
    LW_F_BOOL("accumulate", AT(accumulate), false),
    LW_F_INT32("out_size", AT(out_size), 0),
    LW_F_BOOL("grouped", AT(grouped), false),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_recorded_op, field)
static const struct lw_field recorded_op_fields[] = {
    LW_F_BYTE_WORD("kind", AT(kind), lw_kernel_kind_word),
    LW_F_BOOL("backward", AT(backward), false),
    LW_F_BYTE_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_INT64("batch", AT(batch), 0),
    LW_F_INT64("m", AT(m), 0),
    LW_F_INT64("n", AT(n), 0),
    LW_F_INT64("k", AT(k), 0),
    LW_F_INT64("heads", AT(heads), 0),
    LW_F_INT64("kv_heads", AT(kv_heads), 0),
    LW_F_INT64("qk_width", AT(qk_width), 0),
    LW_F_INT64("v_width", AT(v_width), 0),
    LW_F_BOOL("causal", AT(causal), false),
    LW_F_INT64("flops", AT(flops), 0),
    LW_F_INT64("bytes", AT(bytes), 0),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_kernel, field)
static const struct lw_field kernel_fields[] = {
    LW_F_BYTE_WORD("kind", AT(kind), lw_kernel_kind_word),
    LW_F_BYTE_WORD("split", AT(split), lw_kernel_split_word),
    LW_F_BYTE_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_INT64("batch", AT(batch), 0),
    LW_F_INT64("m", AT(m), 0),
    LW_F_INT64("n", AT(n), 0),
    LW_F_INT64("k", AT(k), 0),
    LW_F_INT64("heads", AT(heads), 0),
    LW_F_INT64("kv_heads", AT(kv_heads), 0),
    LW_F_INT64("qk_width", AT(qk_width), 0),
    LW_F_INT64("v_width", AT(v_width), 0),
    LW_F_INT64("forward_flops", AT(flops[LW_PRODUCTS_FORWARD]), 0),
    LW_F_INT64("input_flops", AT(flops[LW_PRODUCTS_INPUT]), 0),
    LW_F_INT64("weight_flops", AT(flops[LW_PRODUCTS_WEIGHT]), 0),
    LW_F_INT64("forward_bytes", AT(bytes[LW_PRODUCTS_FORWARD]), 0),
    LW_F_INT64("input_bytes", AT(bytes[LW_PRODUCTS_INPUT]), 0),
    LW_F_INT64("weight_bytes", AT(bytes[LW_PRODUCTS_WEIGHT]), 0),
    LW_F_INT64("gathered_bytes", AT(gathered), 0),
    LW_F_INT64("summed_bytes", AT(summed), 0),
    LW_F_INT64("gathered_operand_bytes", AT(gathered_operand), 0),
    LW_F_INT64("summed_operand_bytes", AT(summed_operand), 0),
    LW_F("experts", INT64, AT(experts), .most = LW_MOST_EXPERTS),
    LW_F("capacity", REAL, AT(capacity)),
    LW_F_INT32("forward_launches", AT(n_forward), 0),
    LW_F_INT32("backward_launches", AT(n_backward), 0),
    LW_F_INT64("blocks", AT(blocks), 0),
    LW_F_INT8("out_size", AT(out_size), 0),
    LW_F_INT8("sum_bytes", AT(sum_bytes), 0),
    LW_F_BOOL("fp8", AT(fp8), false),
    LW_F_BOOL("fp4", AT(fp4), false),
    LW_F_BYTE_WORD("fp8_recipe", AT(recipe), lw_fp8_recipe_word),
    LW_F_BOOL("tf32", AT(tf32), false),
    LW_F_BOOL("epilogue", AT(epilogue), false),
    LW_F_BOOL("trained", AT(trained), false),
    LW_F_BOOL("both", AT(both), false),
    LW_F_BOOL("transposed", AT(transposed), false),
    LW_F_BOOL("halves", AT(halves), false),
    LW_F_BOOL("fixed", AT(fixed), false),
    LW_F_BOOL("causal", AT(causal), false),
    LW_F_BOOL("again", AT(again), false),
    LW_F_BOOL("unrepeated", AT(unrepeated), false),
    LW_F_BOOL("attention", AT(attention), false),
    LW_F_BYTE_WORD("pass", AT(only), lw_kernel_only_word),
    LW_F_BYTE_WORD("tokens", AT(tokens), lw_kernel_tokens_word),
    LW_F_BYTE_WORD("layer", AT(layer), lw_kernel_layer_word),
    LW_F_BOOL("scan", AT(scan), false),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_module, field)
#define PRODUCTS(json, phase)                                                                      \
    LW_F_ITEMS(json, INTS32, AT(products[phase]), AT(n_products[phase]))
static const struct lw_field module_fields[] = {
    LW_F_NAME("name", AT(name)),
    LW_F_NS("forward_ns", AT(forward_ps), 0),
    LW_F_NS("backward_input_ns", AT(backward_input_ps), 0),
    LW_F_NS("backward_weight_ns", AT(backward_weight_ps), 0),
    LW_F_INT64("forward_flops", AT(forward_flops), -1),
    LW_F_INT64("forward_bytes", AT(forward_bytes), -1),
    LW_F_INT64("output_bytes", AT(output_bytes), -1),
    LW_F_INT64("kept_bytes", AT(kept_bytes[LW_RECOMPUTE_NONE]), -1),
    LW_F_INT64("kept_bytes_selective", AT(kept_bytes[LW_RECOMPUTE_SELECTIVE]), -1),
    LW_F_INT64("kept_bytes_full", AT(kept_bytes[LW_RECOMPUTE_FULL]), -1),
    LW_F_NS("selective_ns", AT(selective_ps), 0),
    LW_F_NS("unrepeated_ns", AT(unrepeated_ps), 0),
    LW_F_WORD("tp_split", AT(tp_split), split_word),
    LW_F_INT64("tp_forward_bytes", AT(tp_forward_bytes), 0),
    LW_F_INT64("tp_backward_bytes", AT(tp_backward_bytes), 0),
    LW_F_INT32("tp_calls", AT(tp_calls), 0),
    LW_F_NS("tp_column_ns", AT(tp_column_ps), 0),
    LW_F_NS("tp_row_ns", AT(tp_row_ps), 0),
    LW_F_NS("whole_forward_ns", AT(whole_forward_ps), 0),
    LW_F_NS("whole_backward_input_ns", AT(whole_input_ps), 0),
    LW_F_NS("whole_backward_weight_ns", AT(whole_weight_ps), 0),
    LW_F_INT64("whole_kept_bytes", AT(whole_kept_bytes[LW_RECOMPUTE_NONE]), 0),
    LW_F_INT64("whole_kept_bytes_selective", AT(whole_kept_bytes[LW_RECOMPUTE_SELECTIVE]), 0),
    LW_F_INT64("whole_kept_bytes_full", AT(whole_kept_bytes[LW_RECOMPUTE_FULL]), 0),
    LW_F_INT64("kv_bytes", AT(kv_bytes), 0),
    LW_F_NS("attention_start_ns", AT(attention_start_ps), 0),
    LW_F_NS("attention_ns", AT(attention_ps), 0),
    LW_F_NS("attention_backward_start_ns", AT(attention_backward_start_ps), 0),
    LW_F_NS("attention_backward_ns", AT(attention_backward_ps), 0),
    LW_F_INT64("dispatch_bytes", AT(dispatch_bytes), 0),
    LW_F_INT64("dispatch_weight_bytes", AT(dispatch_weight_bytes), 0),
    LW_F_INT64("dispatch_index_bytes", AT(dispatch_index_bytes), 0),
    LW_F_INT64("routing_map_bytes", AT(routing_map_bytes), 0),
    LW_F_INT64("reused_numel", AT(reused_numel), 0),
    PRODUCTS("forward_products", LW_PRODUCTS_FORWARD),
    PRODUCTS("input_products", LW_PRODUCTS_INPUT),
    PRODUCTS("weight_products", LW_PRODUCTS_WEIGHT),
    LW_F_ITEMS("ops", INTS32, AT(ops), AT(n_ops)),
    LW_F_INT32("first_kernel", AT(first_kernel), 0),
    LW_F_INT32("n_kernels", AT(n_kernels), 0),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_param, field)
static const struct lw_field param_fields[] = {
    LW_F_NAME("name", AT(name)),
    LW_F_MUST_INT64("numel", AT(numel)),
    LW_F_INT64("rows", AT(rows), 0),
    LW_F_BYTE_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_MUST_INT32("module", AT(module)),
    LW_F_INT8("device", AT(device), 0),
    LW_F_INT32("tied", AT(tied), -1),
    LW_F_BYTE_WORD("tp_split", AT(tp_split), split_word),
    LW_F_BOOL("trainable", AT(trainable), true),
    LW_F_BOOL("sparse", AT(sparse), false),
    LW_F_BOOL("used", AT(used), true),
    LW_F_BOOL("ignored", AT(ignored), false),
    LW_F_BOOL("expert", AT(expert), false),
    LW_F_NS("ready_ns", AT(ready_ps), -1),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_buffer, field)
const struct lw_field lw_buffer_fields[] = {
    LW_F_NAME("name", AT(name)),
    LW_F_MUST_INT64("numel", AT(numel)),
    LW_F_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_BOOL("broadcast", AT(broadcast), false),
    {0},
};
#undef AT

/* Of a model: its sizes as options take them, the bytes of one tensor or a sum of a few, and ranks
 * as a plan may have them. Products of two sizes and sums of bytes stay below 2^63. */
enum { MOST_SIZE = 1 << 24, MOST_RANKS = 1 << 22 };
#define MOST_BYTES (INT64_C(1) << 50)

#define AT(field) offsetof(struct lw_model_dims, field)
const struct lw_field lw_model_dims_fields[] = {
    LW_F("layers", INT64, AT(layers), .most = MOST_SIZE),
    LW_F("hidden", INT64, AT(hidden), .most = MOST_SIZE),
    LW_F("ffn", INT64, AT(ffn), .most = MOST_SIZE),
    LW_F("vocab", INT64, AT(vocab), .most = MOST_SIZE),
    LW_F("seq", INT64, AT(seq), .most = MOST_SIZE),
    LW_F("batch", INT64, AT(batch), .most = MOST_SIZE),
    LW_F_BOOL("fp8", AT(fp8), false),
    LW_F_BOOL("fp4", AT(fp4), false),
    LW_F_BOOL("fp8_transposes", AT(fp8_transposes), false),
    LW_F_BYTE_WORD("fp8_recipe", AT(fp8_recipe), lw_fp8_recipe_word),
    LW_F_BOOL("experts", AT(experts), false),
    LW_F("n_experts", INT64, AT(n_experts), .most = LW_MOST_EXPERTS),
    LW_F("expert_groups", INT64, AT(expert_groups), .most = 1 << 12),
    LW_F("topk_groups", INT64, AT(topk_groups), .most = 1 << 12),
    LW_F_BOOL("experts_in_turn", AT(experts_in_turn), false),
    LW_F("workspace_bytes", INT64, AT(workspace), .most = MOST_BYTES),
    LW_F("score_bytes", INT64, AT(score_bytes), .most = MOST_BYTES),
    LW_F("whole_grad_bytes", INT64, AT(whole_grad_bytes), .most = MOST_BYTES),
    LW_F("pair_grad_bytes", INT64, AT(pair_grad_bytes), .most = MOST_BYTES),
    LW_F("score_grad_bytes", INT64, AT(score_grad_bytes), .most = MOST_BYTES),
    LW_F("pair_kept_whole", INT64, AT(pair_kept_whole), .most = MOST_BYTES),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_recorded, field)
static const struct lw_field recorded_fields[] = {
    LW_F_INT32("world_size", AT(world_size), 0),
    LW_F_NS("step_ns", AT(step_ps), -1),
    LW_F_NS("step_spread_ns", AT(step_spread_ps), -1),
    LW_F_ITEMS("limit_bytes", INTS64, AT(limit_bytes), AT(n_limits)),
    LW_F_ITEMS("bucket_bytes", INTS64, AT(bucket_bytes), AT(n_buckets)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_model_request, field)
#define SIZE(name) LW_F(#name, INT64, AT(name), .most = MOST_SIZE)
#define FLAG(name) LW_F_BOOL(#name, AT(name), false)
static const struct lw_field model_fields[] = {
    LW_F_STRING("name", AT(name)),
    LW_F_STRING("config", AT(config)),
    SIZE(batch), SIZE(seq),
    LW_F_STRING("dtype", AT(dtype)),
    FLAG(fp8), FLAG(fp4), LW_F_STRING("narrow_of", AT(narrow_of)), FLAG(tf32),
    LW_F_STRING("fp8_recipe", AT(fp8_recipe)),
    SIZE(layers), SIZE(hidden), SIZE(heads), SIZE(kv_heads), SIZE(ffn), SIZE(vocab), SIZE(width),
    SIZE(image), SIZE(patch), SIZE(decoder_seq),
    LW_F("expert_capacity", REAL, AT(expert_capacity)),
    LW_F_STRING("attention", AT(attention)),
    LW_F_STRING("optimizer", AT(optimizer)),
    SIZE(head_width), SIZE(window), SIZE(window_every), SIZE(q_lora), SIZE(kv_lora),
    SIZE(rope_width), SIZE(v_width), SIZE(lora),
    LW_F("layer_pattern", CHARS, AT(layer_pattern), .size = LW_MODEL_LAYERS_SIZE),
    SIZE(ssm_heads), SIZE(ssm_head_width), SIZE(ssm_groups), SIZE(ssm_state), SIZE(ssm_chunk),
    SIZE(expert_latent), LW_F("experts", INT64, AT(experts), .most = LW_MOST_EXPERTS),
    LW_F("topk", INT64, AT(topk), .most = LW_MOST_EXPERTS), SIZE(expert_ffn), SIZE(shared_ffn),
    SIZE(dense_layers),
    SIZE(expert_every), SIZE(expert_groups), SIZE(topk_groups), SIZE(mtp_layers),
    SIZE(mtp_stated), LW_F_STRING("stored_as", AT(stored_as)),
    LW_F_STRING("text_beside", AT(text_beside)),
    FLAG(plain_ffn), FLAG(qk_norm), FLAG(qk_norm_wide), FLAG(norms_after), FLAG(no_norms_before),
    FLAG(joined), FLAG(shared_gate), FLAG(qkv_bias), FLAG(expert_bias), FLAG(expert_whole),
    FLAG(experts_in_turn),
    FLAG(tied), FLAG(alibi),
    FLAG(embedding_norm), FLAG(no_bias), SIZE(positions),
    FLAG(layer_norm), FLAG(biases), FLAG(dropout), FLAG(fused_loss), FLAG(deterministic),
    FLAG(expert_serial), FLAG(expert_gathered), FLAG(fused_permute), SIZE(head_waits),
    FLAG(f32_softmax), FLAG(autocast),
    SIZE(linear_every), SIZE(linear_heads), SIZE(linear_key_heads), SIZE(linear_width),
    SIZE(linear_key_width), FLAG(linear_split), FLAG(attention_gate),
    {0},
};
#undef FLAG
#undef SIZE
#undef AT

#define AT(field) offsetof(struct lw_made_for, field)
static const struct lw_field made_for_fields[] = {
    LW_F("tp", INT64, AT(tp), .most = MOST_RANKS),
    LW_F("cp", INT64, AT(cp), .most = MOST_RANKS),
    LW_F("ep", INT64, AT(ep), .most = MOST_RANKS),
    LW_F_BOOL("folded_experts", AT(folded_experts), false),
    LW_F("dispatch_once", INT64, AT(dispatch_once), .most = MOST_RANKS),
    LW_F_BOOL("sequence_parallel", AT(sequence_parallel), false),
    LW_F_WORD("tp_overlap", AT(tp_overlap), lw_tp_overlap_word),
    LW_F_WORD("dispatcher", AT(dispatcher), lw_dispatcher_word),
    LW_F_INT64("recompute_parts", AT(again_parts), 0),
    LW_F_BOOL("reduced", AT(reduced), false),
    LW_F_BOOL("grad_f32", AT(grad_f32), false),
    LW_F_BOOL("usual_framework", AT(usual), false),
    LW_F_STRING("framework", AT(framework)),
    LW_F_STRING("framework_hash", AT(framework_hash)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_provenance, field)
static const struct lw_field from_fields[] = {
    LW_F_STRING("format", AT(format)),     LW_F_STRING("file", AT(file)),
    LW_F_STRING("hash", AT(hash)),         LW_F_STRING("device", AT(device)),
    LW_F_STRING("producer", AT(producer)), LW_F_INT32("rank", AT(rank), -1),
    LW_F_INT32("step", AT(step), -1),
    LW_F_OBJECT("model", AT(model), model_fields),
    LW_F_OBJECT("made_for", AT(made_for), made_for_fields),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_workload, field)
const struct lw_field lw_workload_file_fields[] = {
    LW_F_HEAD,
    LW_F_NAME("name", AT(name)),
    LW_F_OBJECT("from", AT(from), from_fields),
    LW_F_ITEMS("notes", STRINGS, AT(notes), AT(n_notes)),
    LW_F_OBJECT("dims", AT(dims), lw_model_dims_fields),
    LW_F_INT64("batch", AT(batch), 0),
    LW_F_INT64("sample_tokens", AT(sample_tokens), 0),
    LW_F_INT64("heads", AT(heads), 0),
    LW_F_INT64("kv_heads", AT(kv_heads), 0),
    LW_F_INT64("attention_flops", AT(attention_flops), 0),
    LW_F_INT64("score_flops", AT(score_flops), 0),
    LW_F_INT64("idle_numel", AT(idle_numel), 0),
    LW_F_WORD("optimizer", AT(optimizer), lw_optimizer_name),
    LW_F_NS("optimizer_ns", AT(optimizer_ps), 0),
    LW_F_NS("gradients_ns", AT(gradients_ps), 0),
    LW_F_NS("gap_before_forward_ns", AT(gap_ps[LW_GAP_BEFORE_FORWARD]), 0),
    LW_F_NS("gap_before_backward_ns", AT(gap_ps[LW_GAP_BEFORE_BACKWARD]), 0),
    LW_F_NS("gap_before_optimizer_ns", AT(gap_ps[LW_GAP_BEFORE_OPTIMIZER]), 0),
    LW_F_NS("gap_after_optimizer_ns", AT(gap_ps[LW_GAP_AFTER_OPTIMIZER]), 0),
    LW_F_OBJECT("recorded", AT(recorded), recorded_fields),
    LW_F_LIST("products", AT(products), AT(n_products), lw_product_fields, struct lw_product),
    LW_F("products_tp", INT64, AT(timed_for.tp), .most = INT32_MAX),
    LW_F("products_cp", INT64, AT(timed_for.cp), .most = INT32_MAX),
    LW_F_LIST("ops", AT(ops), AT(n_ops), recorded_op_fields, struct lw_recorded_op),
    LW_F_INT64("update_bytes", AT(step_traffic.update), 0),
    LW_F_INT64("held_bytes", AT(step_traffic.held), 0),
    LW_F_INT64("host_bytes", AT(step_traffic.host), 0),
    LW_F_INT64("state_bytes", AT(state_bytes), 0),
    LW_F_LIST("kernels", AT(kernels), AT(n_kernels), kernel_fields, struct lw_kernel),
    LW_F_LIST("modules", AT(modules), AT(n_modules), module_fields, struct lw_module),
    LW_F_LIST("params", AT(params), AT(n_params), param_fields, struct lw_param),
    LW_F_LIST("sparse", AT(sparse), AT(n_sparse), lw_sparse_fields, struct lw_sparse),
    LW_F_LIST("buffers", AT(buffers), AT(n_buffers), lw_buffer_fields, struct lw_buffer),
    LW_F_ITEMS("ready_order", INTS32, AT(ready_order), AT(n_ready)),
    LW_F_ITEMS("grad_kernel", INTS32, AT(grad_kernel), AT(n_grad_kernels)),
    {0},
};
#undef AT

/* What kernels say is not in the file. */
static enum lw_status list_products(const char *file, struct lw_workload *w, struct lw_err *err)
{
    const struct lw_kernel_groups groups = lw_workload_groups(w);

    if (w->n_products > 0 || w->n_ops > 0)
        return lw_fail(err, LW_EFORMAT, "%s: at %s: found %d beside kernels, allowed: none; leave "
                       "them out, products follow from kernels, and ops are of recordings", file,
                       w->n_products > 0 ? "products" : "ops",
                       w->n_products > 0 ? w->n_products : w->n_ops);
    return lw_kernels_list_products(w, &groups, err);
}

enum lw_status lw_workload_read(const char *file, struct lw_workload *w, struct lw_err *err)
{
    struct lw_workload read = {0};
    enum lw_status s = lw_file_read(file, "workload", lw_workload_file_fields, &read.arena, &read,
                                    err);

    if (s == LW_OK) {
        s = lw_workload_check(&read, err);
        if (s != LW_ENOMEM)
            s = lw_err_context(err, s, "%s", file);
    }
    if (read.n_grad_kernels == 0)
        read.grad_kernel = NULL; /* an empty list is as none */
    if (s == LW_OK && read.n_kernels > 0)
        s = list_products(file, &read, err);
    if (s != LW_OK) {
        lw_workload_free(&read);
        return s;
    }
    *w = read;
    return LW_OK;
}

static enum lw_status leave_out_products(const struct lw_workload *w, struct lw_arena *scratch,
                                         struct lw_workload *out, struct lw_err *err)
{
    struct lw_module *modules;

    LW_TAKE(scratch, modules, w->n_modules, err);
    memcpy(modules, w->modules, (size_t)w->n_modules * sizeof *modules);
    for (int32_t i = 0; i < w->n_modules; i++)
        for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
            modules[i].n_products[f] = 0;
    out->modules = modules;
    out->n_products = 0;
    out->timed_for = (struct lw_kernel_groups){.tp = 0};
    return LW_OK;
}

enum lw_status lw_workload_write(const struct lw_workload *w, const char *file, struct lw_err *err)
{
    struct lw_workload x = *w;
    struct lw_arena scratch = {0};

    LW_TRY(lw_workload_check(w, err));
    enum lw_status s = w->n_kernels > 0 ? leave_out_products(w, &scratch, &x, err) : LW_OK;
    if (s == LW_OK)
        s = lw_file_write(file, "workload", lw_workload_file_fields, &x, err);
    lw_arena_free(&scratch);
    return s;
}
