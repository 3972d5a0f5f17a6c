#pragma once

/* What a framework can differ in, one row each, in the order in which they are shown:
 *
 *     row(member, "unit", RANGE, "what it means")     its name in the file is the member's
 *     time(stem, "what it means")                     member stem_ps, whole ps; "stem_ns" in files
 *
 * The file format, the check, the hash, what shows a framework and the table of
 * docs/design/frameworks.md are made from these lists. RANGE is one of framework.c. */

/* Kernels that others fuse move more bytes; kept operands stay for the backward. */
#define LW_FRAMEWORK_KERNELS(row, time) \
    row(unfused_sums, "", FLAG, "a kernel of its own adds gradients to f32 sums") \
    row(cast_sums, "", FLAG, "those sums take f32 copies of bf16; f16 is added in its own type") \
    row(unfused_loss, "", FLAG, "each step of the loss is a kernel on f32 scores") \
    row(unfused_block, "", FLAG, "gradients of gate and residual, and layout copies, are kernels") \
    row(unfused_norms, "", FLAG, "the steps of norms and rotation are kernels in f32") \
    row(norm_casts, "", FLAG, "a kernel casts a norm's input to f32, and its gradient back") \
    row(norms_again, "", FLAG, "the backward runs sums of residuals and norms again") \
    row(residual_sums, "", FLAG, "a kernel adds the gradients of a residual and of its norm") \
    row(bias_sums, "", FLAG, "a kernel sums the gradient of a product's bias") \
    row(joined_gradients, "", FLAG, "a kernel joins gradients of queries, keys and values") \
    row(context_copy, "", FLAG, "attention's result is copied to the order of tokens") \
    row(loss_in_place, "", FLAG, "the loss reads scores and writes their gradient over them") \
    row(loss_writes_gradient, "", FLAG, "forward writes scores' gradient, backward scales it") \
    row(log_softmax, "", FLAG, "the loss is one kernel each way on scores of their own type") \
    row(tf32_convolutions, "", FLAG, "convolutions of f32 are of TF32, on devices that have it") \
    row(convolution_layouts, "", FLAG, "kernels bring convolutions channels last, and back") \
    row(channel_norms, "", FLAG, "one thread block has a channel of a batch norm") \
    row(metric_losses, "", COUNT, "losses that metrics compute of a micro-batch, in f32") \
    row(unfused_grads, "", FLAG, "gradients are added to sums of their own type by a kernel") \
    row(unfused_expert_bias, "", FLAG, "experts' biases and their gate's clamp are kernels") \
    row(fused_clamp, "", FLAG, "that clamp is part of the gate's kernel, which keeps its input") \
    row(unfused_up_bias, "", FLAG, "so are the biases before that gate, which no product adds") \
    row(unfused_rotation, "", FLAG, "the steps of rotation are kernels in f32, a norm is one") \
    row(unfused_yarn, "", FLAG, "the steps of a rotation that YaRN scales are kernels") \
    row(unfused_mask, "", FLAG, "a kernel masks stored scores before their softmax") \
    row(router_f32, "", FLAG, "the gradients of a router's scores are f32 products, with casts") \
    row(graph_copies, "", FLAG, "with experts: inputs and gradients of CUDA graphs are copied") \
    row(padded_experts, "", FLAG, "8-bit experts: copies of tokens are padded by kernels") \
    row(hybrid_ep, "", FLAG, "what goes once has weights of all experts beside it, and a map") \
    row(unfused_dispatch, "", FLAG, "experts: f32 weighting, fills and sums are kernels") \
    row(samples_first, "", FLAG, "hybrids: samples come before tokens, as a scan takes them") \
    row(fused_sums, "", FLAG, "products of weights' gradients add them to f32 sums") \
    row(kept_fused_gate, "", FLAG, "the backward computes the gate's activation again") \
    row(kept_gate_8bit, "", FLAG, "with adapters: the gated pair's input is kept in 8 bits") \
    row(kept_attention_8bit, "", FLAG, "with adapters: attention keeps its tensors in 8 bits") \
    row(kept_adapter_whole, "", FLAG, "sequence parallelism: an adapter keeps its gathered input") \
    row(kept_adapter_dropout, "", FLAG, "an adapter's input passes dropout: result and mask stay") \
    row(kept_projections, "", FLAG, "selective recomputation keeps queries, keys and values") \
    row(kept_norm_result, "", FLAG, "a norm before a product keeps its result, not its input") \
    row(kept_relu, "", FLAG, "GPT's activation is ReLU, which keeps its result alone") \
    row(kept_16bit, "", FLAG, "8-bit products keep their operands in 16 bits") \
    row(kept_alternate, "", FLAG, "selective recomputation keeps every second product") \
    row(kept_needed, "", FLAG, "of these products what no backward reads is not kept") \
    row(checkpoint_stops_early, "", FLAG, "full recomputation ends with what the backward reads") \
    row(kept_repeated, "", FLAG, "keys and values are kept for each head of queries") \
    row(kept_no_cudnn, "", FLAG, "selective recomputation repeats attention by cuDNN (Blackwell)") \
    row(kept_chunked_loss, "", FLAG, "the loss runs in pieces and keeps no f32 scores") \
    row(kept_loss_in_place, "", FLAG, "the loss's steps change one f32 copy of the scores") \
    row(kept_fused_head, "", FLAG, "head and loss run in pieces of tokens and keep no scores") \
    row(loss_scores, "B", COUNT, "of a score, what the loss's steps hold at their most") \
    row(loss_scores_split, "B", COUNT, "the same where a tensor group divides the scores") \
    row(kept_unweighted, "", FLAG, "an expert's plain activation is kept without its weight too") \
    row(kept_scattered, "", FLAG, "sums in a fixed order keep what each expert gives") \
    row(no_dropout, "", FLAG, "GPT's blocks and embedding have no dropout") \
    row(no_score_dropout, "", FLAG, "attention has no dropout of stored scores") \
    row(embedding_norm, "", FLAG, "a norm follows GPT's embedding") \
    row(product_lookup, "", FLAG, "embeddings are products of tokens' one-hot rows and the table") \
    row(kept_layouts, "", FLAG, "FlashAttention's result is kept in two orders of tokens") \
    row(gathers_operands, "", FLAG, "a tensor group gathers inputs of 8-bit products in 8 bits") \
    row(input_casts, "", FLAG, "a kernel casts what an 8-bit product reads, but for a norm's") \
    row(fused_latent_rotation, "", FLAG, "latent attention's rotation makes keys and values") \
    row(scale_passes_hopper, "", FLAG, "H100, H200: a pass finds the scale before an 8-bit cast") \
    row(fused_experts, "", FLAG, "Blackwell: experts' activation is part of their 8-bit products") \
    row(traffic, "", POSITIVE, "bytes of kernels without products, against those counted") \
    row(attention_speed, "", POSITIVE, "attention, against the device's best known kernel") \
    row(attention_speed_hopper, "", POSITIVE, "the same on H100 and H200") \
    row(attention_speed_blackwell, "", POSITIVE, "the same on Blackwell") \
    row(grouped_speed_blackwell, "", POSITIVE, "Blackwell: experts' products, against figures") \
    row(scores_forward, "", POSITIVE, "time of products of stored scores, against that by shape") \
    row(scores_backward, "", POSITIVE, "the same in backward") \
    row(pad_vocab, "rows", COUNT, "the vocabulary is padded to this many for each tensor rank") \
    time(memory_op, "kernels without products take so much beside bytes and launch")

#define LW_FRAMEWORK_HOST(row, time) \
    time(host_op, "host time to launch a kernel: a module takes no less") \
    time(host_forward, "that of a linear layer of blocks, with its casts, forward") \
    time(host_backward, "the same in backward: both products") \
    time(host_forward_8bit, "that of such a layer with narrower operands, forward") \
    time(host_backward_8bit, "the same in backward") \
    row(joined_layers, "", FLAG, "queries, keys and values are one layer, gate and up another") \
    row(host_waits, "", FLAG, "each launch waits for the previous kernel") \
    row(expert_products, "", FLAG, "a grouped product is a launch for each expert of the rank") \
    row(router_forward, "", COUNT, "launches of router and dispatch that no kernel counts") \
    row(router_backward, "", COUNT, "the same in backward") \
    time(header_poll, "between stages the host sleeps so after each of a tensor's two headers") \
    row(stage_tensors, "", COUNT, "tensors a forward sends to the next stage, beside headers") \
    row(stage_fills, "", FLAG, "a stage fills a tensor for each message on the host, and copies it")

/* Passes of a step over gradients beside the optimizer's own. */
#define LW_FRAMEWORK_STEP(row, time) \
    row(step_zero, "", FLAG, "fills the gradients with zeros") \
    row(step_check, "", FLAG, "reads all gradients before the reduction") \
    row(step_scale, "", FLAG, "multiplies all gradients before the reduction of several ranks") \
    row(step_clip, "", FLAG, "takes the norm of gradients and multiplies them") \
    row(step_unscale, "", FLAG, "divides gradients by the loss scale") \
    row(step_copy, "", FLAG, "a kernel after the optimizer's copies masters to parameters") \
    row(step_foreach, "", FLAG, "Adam is eight kernels over lists of tensors, not a fused one") \
    row(host_bytes, "B", STATE_BYTES, "of a 16-bit element that the host updates, moved beside") \
    row(host_bytes_zero3, "B", STATE_BYTES, "the same with ZeRO-3")

#define LW_FRAMEWORK_MEMORY(row, time) \
    row(blas_workspaces, "", COUNT, "workspaces of cuBLAS that torch holds, one a handle") \
    row(te_workspace, "", FLAG, "TransformerEngine's workspace of cuBLAS") \
    row(te_streams, "", COUNT, "such workspaces more for grouped products of experts") \
    row(te_overlap, "", COUNT, "such workspaces more for products that overlap collectives") \
    row(dummy_gradients, "", FLAG, "one tensor for each shape of the weights' gradients stays") \
    row(mask_in_batch, "", FLAG, "a batch has a mask of all pairs of positions") \
    row(gather_buffer, "", FLAG, "what a group gathers of all tokens goes to a buffer that stays") \
    row(reserved, "", FACTOR, "memory that the allocator reserves, against tensors alive") \
    row(reserved_stages, "", FACTOR, "the same in stages of a pipeline, where there is room") \
    row(freed_scores, "B", COUNT, "of a score, freed by the loss and still reserved") \
    row(whole_inputs, "", COUNT, "sequence parallelism: whole inputs held by a backward") \
    row(fp8_params, "", FLAG, "weights of blocks are 8 bits beside 8-bit products") \
    row(fp8_transposes, "", FLAG, "of such weights Hopper's products need the transposes too") \
    row(gradients_stay, "", FLAG, "a buffer holds the gradients from step to step") \
    row(own_gradients, "", FLAG, "gradients of the parameters' type beside their f32 sums") \
    row(step_gathers, "", FLAG, "ZeRO-1's step gathers weights into tensors beside them") \
    row(flat_gradients, "", FLAG, "below ZeRO-3 the step makes one tensor of the gradients") \
    row(step_bytes, "B", COUNT, "of an updated element, what the step allocates") \
    row(state_bytes, "B", STATE_BYTES, "of a 16-bit element, Adam's state; 12 hold a master") \
    row(bucket, "elements", ELEMENTS, "buffers of reduced gradients below ZeRO-3") \
    row(bucket_overlaps, "", FLAG, "a second such buffer where reductions overlap the backward") \
    row(bucket_zero3, "", FLAG, "such a buffer with ZeRO-3 too") \
    row(f32_shards, "", FLAG, "ZeRO-3: the shard of a 16-bit weight is its f32 master") \
    row(reduce_copies, "", FLAG, "ZeRO-3: a reduction copies gradients to a buffer of its type") \
    row(stream_pools, "", FLAG, "ZeRO-3: gathers and reduced shards have memory of their streams") \
    row(bucket_copy_zero3, "", FLAG, "ZeRO-3, overlapped: a stream's own copy of what is reduced") \
    row(buckets_alone, "", FLAG, "such buffers also on one data-parallel rank") \
    row(buckets_in_place, "", FLAG, "buckets of gradients are parts of the gradients' buffer") \
    row(applied_gradients, "", FLAG, "gradients are applied where they are made") \
    row(keeps_outputs, "", FLAG, "a stage keeps what it sent until the micro-batch's backward") \
    row(last_outputs, "", COUNT, "the last stage holds f32 scores of so many micro-batches") \
    row(stage_buffers, "per stage", COUNT, "buffers of inputs and weights on all but the last") \
    row(flat_weights, "", FLAG, "beside f32 sums weights are copied to one tensor") \
    row(own_bytes, "B", ELEMENTS, "outside the allocator, where the cluster does not say") \
    row(own_bytes_split, "B", ELEMENTS, "the same with tensor groups") \
    row(own_bytes_grace, "B", ELEMENTS, "the same on GH200, with tensor groups or without")

#define LW_FRAMEWORK_STAGES(row, time) \
    row(even_blocks, "", FLAG, "stages have equal numbers of blocks, the first ones one more") \
    row(rest_last, "", FLAG, "of blocks that do not divide the last stage has what is left") \
    row(blocks_by_cost, "", FLAG, "stages end where the cost of blocks exceeds their share") \
    row(parts_before, "", COUNT, "stages share parts evenly: blocks, one head, before them these") \
    row(whole_chunks, "", FLAG, "chunks divide the blocks of a stage") \
    row(most_spare_stages, "", COUNT, "stages after the head's that can do without a block") \
    row(fills_pipeline, "", FLAG, "refuses fewer micro-batches than stages less one")

#define LW_FRAMEWORK_FACTS(row, time) \
    LW_FRAMEWORK_KERNELS(row, time) \
    LW_FRAMEWORK_HOST(row, time) \
    LW_FRAMEWORK_STEP(row, time) \
    LW_FRAMEWORK_MEMORY(row, time) \
    LW_FRAMEWORK_STAGES(row, time)
