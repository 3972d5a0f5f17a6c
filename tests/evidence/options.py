"""A row of a published table -> the options of `lapwing sim`.

Only the fields of the row decide: the model and its sizes, the groups, the batch, what the row
says of ZeRO, recomputation and overlap. What the framework does beside is the framework's. What
cannot be expressed is refused with a reason that has no figure of the row, so that reasons can be
counted.
"""
import re

from words import CONTEXT_OF_STATES, Cannot, WORDS, has, has_any_case

LORA_RANK = 16  # MLPerf Training rules, llama2_70b_lora: rank 16


def is_yes(text):
    return text.lower().startswith(("yes", "true")) or text.startswith(("1", "TP mode"))


# --- models --------------------------------------------------------------------------------------


def letters(text):
    return "".join(c for c in text.lower() if c.isascii() and c.isalnum())


LAYERS = WORDS["models"]["layers"]
BY_LETTERS = {letters(name): name for name in LAYERS}


def known_model(row):
    """A name alone counts only where the row gives no sizes: tables use it for other sizes."""
    name = letters(row.model)
    for start, model in WORDS["models"]["rows"]:
        if name.startswith(start):
            return model
    return BY_LETTERS.get(name) if row.layers == 0 and row.hidden == 0 else None


HYBRIDS = ("nemotron-h-", "nemotron-nano-", "nemotron-3-nano", "nemotron-3-super",
           "nemotron-3-ultra")


def take_known(row):
    layers = LAYERS[row.base]
    if row.base.startswith(HYBRIDS) and row.cp > 1:
        raise Cannot(CONTEXT_OF_STATES)
    chunks = max(row.pp, 1) * (row.vpp if row.pp > 1 and row.vpp > 0 else 1)
    if row.layers > 0 and row.layers % chunks != 0 and layers % chunks == 0:
        raise Cannot("the layers do not divide into pp * vpp chunks, though those of the model "
                     "that the row names do")
    row.layers = row.layers or layers
    gated = row.base.startswith("gpt-oss") or \
        not row.base.startswith(("gpt", "bloom", "mpt", "bert"))
    row.family = "llama" if gated else "gpt"


FAMILIES = [("llama", "llama"), ("internlm", "llama"), ("mpt", "mpt"), ("gpt", "gpt"),
            ("bloom", "gpt"), ("bert", "bert")]


def complete_experts_of_model(row):
    """A model with experts is never a dense one."""
    spoken = has_any_case(row.model, "moe") or row.experts > 1 or row.ep > 1
    if row.base or not spoken:
        return
    if not (row.experts > 1 and row.topk > 0 and row.moe_ffn > 0):
        raise Cannot("the sizes of the model's experts are not known")
    row.family = "llama"


def complete_model(row):
    row.base = known_model(row)
    if row.base:
        take_known(row)
    complete_experts_of_model(row)
    for word, family in FAMILIES:
        if not row.family and has_any_case(row.model, word):
            row.family = family
    if not row.base and (row.layers == 0 or row.hidden == 0):
        raise Cannot("the sizes of the model are not known" if row.model
                     else "the row names no model, and no sizes of one")
    if not row.family:
        raise Cannot("the model's family is not known")
    if row.base:
        return
    if row.heads == 0:
        raise Cannot("the number of heads is not given")
    if row.seq == 0:
        raise Cannot("the sequence length is not given")
    row.kv_heads = row.kv_heads or row.heads
    if row.vocab == 0:
        row.vocab = 51200
        row.assumed.append("vocab 51200: that of GPT-2's tokenizer, padded")


def narrow_products(row):
    """Which products are narrow, where a row names them ("mxfp8 linears + grouped GEMMs" has both):
    torchao's converters of linear layers and of grouped products; the head's with all others."""
    if has(row.precision, "with head"):
        return "head"
    linears = has_any_case(row.precision, "linears")
    grouped = has_any_case(row.precision, "grouped")
    return "" if linears == grouped else "linears" if linears else "experts"


RECIPES = (("mxfp8", "mxfp8"), ("fp8-mx", "mxfp8"), ("fp8-cs", "tensorwise"),
           ("current scaling", "tensorwise"), ("tensorwise", "tensorwise"))


def fp8_recipe(row):
    """The scales that a row names. "FP8" and "per-tensor" name none (delayed or current), nor does
    "block/MX"; torchao's rowwise_with_gw_hp has a weights' gradient of 16 bits, which no recipe
    here has."""
    words = row.precision.lower()
    return next((recipe for word, recipe in RECIPES if word in words), "")


def element_type(row):
    """The type of parameters, and the option of narrower products ("" = none)."""
    if not row.precision:
        raise Cannot("the precision is not given")
    if has_any_case(row.precision, "nvfp4"):
        return "bf16", "fp4"  # with attention in 8 bits too
    if has_any_case(row.precision, "fp4"):
        raise Cannot("4-bit products other than NVFP4 are not modelled")
    if row.precision.lower().startswith("fp32"):
        return "f32", ""  # not "bf16 (fp32 grad accumulate)"
    fp8 = has_any_case(row.precision, "fp8") or has_any_case(row.precision, "float8")
    return "f16" if has_any_case(row.precision, "fp16") else "bf16", "fp8" if fp8 else ""


# --- groups and batch ----------------------------------------------------------------------------


def split_model(row):
    """Tensor groups fill a node before there are stages (Narayanan et al., SC'21, section 3.1)."""
    if row.model_parallel <= 1 or row.tp > 0 or row.pp > 0:
        return
    row.tp = min(row.model_parallel, max(row.gpus_per_node, 1))
    row.pp = row.model_parallel // row.tp
    if row.model_parallel % row.tp != 0:
        raise Cannot("model-parallel ranks are not a multiple of a node's")


def split_experts(row):
    """Megatron splits each expert over the tensor group unless --expert-tensor-parallel-size says
    otherwise; experts that data and context ranks are too few for are shared by the tensor group,
    whose ranks ep then counts too, as --etp 1 of a plan."""
    ranks = row.dp * row.cp
    if row.ep == 1:
        row.etp = row.tp
    if row.etp == 0:
        row.etp = 1 if row.ep > ranks else row.tp
    if row.etp not in (1, row.tp):
        raise Cannot("the expert tensor group has a size other than 1 or tp")
    if row.etp < row.tp and row.ep % row.tp != 0:
        raise Cannot("expert ranks are not a multiple of the tensor group")
    if ranks * row.tp // row.etp % row.ep != 0:
        raise Cannot("expert ranks do not divide data and context ranks")


def chunks_of(row):
    """Megatron refuses chunks that do not divide a stage's layers (megatron/training/arguments.py):
    the next number that does."""
    chunks = max(row.vpp, 1)
    if not has(row.framework, "Megatron") or row.layers % row.pp != 0 or \
            chunks > row.layers // row.pp:
        return chunks
    while row.layers % (row.pp * chunks) != 0:
        chunks += 1
    return chunks


def complete_world(row):
    split_model(row)
    if row.layers_per_chunk and row.pp > 1:
        row.vpp = row.layers // (row.pp * row.layers_per_chunk)
    for field in ("cp", "tp", "pp", "ep"):
        setattr(row, field, max(getattr(row, field), 1))
    row.vpp = chunks_of(row) if row.pp > 1 else 1
    inner = row.cp * row.tp * row.pp
    if row.gpus == 0:
        row.gpus = max(row.dp, 1) * inner
    if row.gpus % inner != 0:
        raise Cannot("devices are not a multiple of tp * pp * cp")
    row.dp = row.gpus // inner
    split_experts(row)


def computed_micro_batches(row):
    """Megatron and NeMo take the samples and the micro-batch and divide: a printed number of
    micro-batches is not what they are told (NVIDIA/Megatron-LM@core_v0.12.0, megatron/core/
    num_microbatches_calculator.py; NVIDIA-NeMo/Automodel@5e55eca63, nemo_automodel/components/
    training/step_scheduler.py)."""
    divides = row.gbs > 0 and row.mbs > 0 and row.gbs % (row.mbs * row.dp) == 0
    told = has(row.framework, "Megatron") or has(row.framework, "NeMo")
    computed = row.gbs // (row.mbs * row.dp) if divides and told else row.micro_batches
    if row.micro_batches not in (0, computed):
        row.assumed.append("micro-batches: the samples over those of all ranks' micro-batches, as "
                           "the framework computes them; the printed number is another")
    return computed


def complete_batch(row):
    """Of samples, micro-batch and number of micro-batches two give the third; where all are there
    the micro-batches are what ran. torchtitan without a global batch runs one micro-batch a rank
    (pytorch/torchtitan@b5bcd76c6, torchtitan/config/configs.py, global_batch_size)."""
    if row.gbs == 0 and row.batch_per_dp > 0:
        row.gbs = row.batch_per_dp * row.dp
    row.micro_batches = computed_micro_batches(row)
    if row.gbs == 0 and row.micro_batches == 0 and has(row.framework, "torchtitan"):
        row.micro_batches = 1
    if row.mbs == 0 and row.gbs > 0 and row.micro_batches > 0:
        row.mbs = row.gbs // (row.micro_batches * row.dp)
    if row.mbs == 0:
        raise Cannot("the micro-batch is not given")
    if row.gbs > 0 and row.micro_batches > 0 and row.gbs != row.mbs * row.dp * row.micro_batches:
        raise Cannot("the global batch is not micro-batch * micro-batches * data-parallel ranks")
    if row.micro_batches > 0:
        row.gbs = row.mbs * row.dp * row.micro_batches
    if row.gbs == 0:
        raise Cannot("the global batch is not given")
    if row.gbs % (row.mbs * row.dp) != 0:
        raise Cannot("the global batch does not divide into micro-batches")
    row.micro_batches = row.gbs // (row.mbs * row.dp)


# --- framework and machine -----------------------------------------------------------------------


def framework_of(row):
    compiled = has(row.compile, "yes")
    for cell, options, needs_compiled, name in WORDS["frameworks"]["rows"]:
        if has(row.framework, cell) and has(row.options, options) and \
                (compiled or not needs_compiled):
            return name
    raise AssertionError("words.json: the last framework has no words")


def cluster_of(row):
    for entry in WORDS["clusters"]["rows"]:
        if all(has_any_case(getattr(row, field), entry.get(field, ""))
               for field in ("gpu", "network", "state")):
            if entry["cluster"] is None:
                break
            if "assumed" in entry:
                row.assumed.append(entry["assumed"])
            return entry["cluster"]
    raise Cannot("no known cluster has the device" if row.gpu else "the device is not given")


def node_gbps(row):
    """ "400 Gb/s per node" of the network's text."""
    rate, found, _ = row.network.partition(" Gb/s per node")
    try:
        return rate if found and float(rate) > 0 else ""
    except ValueError:
        return ""


# --- options -------------------------------------------------------------------------------------


def zero_of(row):
    if has(row.zero, "GRAD_OP") or has(row.zero, "ZeRO-2"):
        return 2
    if has(row.zero, "ZeRO-1") or row.zero == "1" or row.zero.startswith("1,"):
        return 1
    if (has(row.zero, "FSDP") and not has(row.zero, "FSDP=0")) or has(row.zero, "ZeRO-3") or \
            has(row.zero, "HSDP"):
        return 3
    if has(row.dist_optimizer, "yes") or has(row.dist_optimizer, "True") or \
            has(row.zero, "distributed optimizer"):
        return 1
    return None


def copies_of(row):
    """Groups of ranks that each hold the whole model: of HSDP one a node (torch's
    ShardingStrategy.HYBRID_SHARD, torch/distributed/fsdp/api.py)."""
    node = row.gpus_per_node if has(row.zero, "HSDP") else 0
    if row.zero_ranks > 0 and row.dp % row.zero_ranks == 0:
        return row.dp // row.zero_ranks
    return row.zero_copies or (row.dp // node if 0 < node < row.dp and row.dp % node == 0 else 1)


# Cells of "TP comm overlap True" (NVIDIA's MLPerf scripts), "async TP" (torchtitan) or "no TP"
# (SimuMax's); none: the framework's usual way.
TP_OVERLAPS = [("no TP", "off"), ("TP comm overlap False", "backward"),
               ("TP comm overlap 0", "backward"), ("TP comm overlap", "pieces"),
               ("async TP", "copies")]


def tp_overlap_of(row):
    return next((how for cell, how in TP_OVERLAPS if row.tp > 1 and has(row.overlap, cell)), "")


# Words of parts of a block that selective recomputation names, and Megatron-LM's names of them.
PARTS = {"core_attn": "core_attn", "mlp": "mlp", "mlp_act": "mlp_act", "moe": "moe",
         "moe_act": "moe_act", "act": "moe_act", "layernorm": "layernorm", "norm": "layernorm",
         "mla_up_proj": "mla_up_proj", "shared_expert": "shared_experts",
         "shared_experts": "shared_experts"}


def parts_of(row):
    """ "mlp + core_attn" or "selective (norm, act)"; core attention alone has no name: it is what
    selective recomputation is without names."""
    found = [PARTS[w] for w in re.findall(r"\w+", row.recompute.lower()) if w in PARTS]
    return "" if has(row.recompute, "full") or set(found) <= {"core_attn"} else \
        ",".join(dict.fromkeys(found))


def recompute_of(row):
    """ "selective layer" is a share of the blocks that no table gives: nothing. Where a source
    gives the number of blocks (recompute_layers), these are recomputed whole."""
    if not row.recompute:
        return ""
    if has(row.recompute, "full") or row.recompute_layers:
        return "full"
    if parts_of(row):
        return "selective"
    selective = has(row.recompute, "selective") or has(row.recompute, "core_attn")
    return "selective" if selective and not has(row.recompute, "layer") else "none"


TOPK = {"qwen3-next": 10, "moonlight": 6, "qwen3": 8, "deepseek-v3": 8, "kimi-k2": 8,
        "gpt-oss": 4, "nemotron-3-nano": 6, "nemotron-3-super": 22,
        "nemotron-3-ultra": 22}  # of models without a size; the first that fits


def topk_of(row):
    return row.topk or next(k for name, k in TOPK.items() if row.base.startswith(name))


def sends_once(row):
    """DeepEP and HybridEP send a token once to each node and rank (deepseek-ai/DeepEP, README)."""
    return row.ep > 1 and has_any_case(row.dispatcher, "ep")


# Cells "HybridEP", "DeepEP" or "hybridep", and "alltoall" or "A2A", of Megatron's dispatchers;
# none: the framework's usual way.
DISPATCHERS = [("hybridep", "hybridep"), ("deepep", "deepep"), ("alltoall", "all-to-all"),
               ("a2a", "all-to-all")]


def dispatcher_of(row):
    return next((name for cell, name in DISPATCHERS
                 if row.ep > 1 and has_any_case(row.dispatcher, cell)), "")


# Time of the fullest rank's experts against even loads: median of 178 pairs of
# kernel-tables/moe.csv (ep above 1, 1,024 tokens and more, 32 experts and more), power_law_1.01,
# which its authors assume of DeepSeek-V3 (ai-dynamo/aiconfigurator, sdk/models.py:
# _power_law_alpha).
REAL_ROUTER = "1.17"


def complete_routing(row):
    if has(row.routing, "real router") and row.ep > 1 and not row.expert_capacity:
        row.expert_capacity = REAL_ROUTER
        row.assumed.append("the fullest rank's experts have 1.17 of the even share, as of loads by "
                           "a power law of 1.01 (kernel-tables/moe.csv)")


def overlaps_experts(row, zero):
    """Megatron's --overlap-moe-expert-parallel-comm, which a pipeline has with virtual stages. A
    step of one micro-batch has no other one's backward beside its forward."""
    units = row.micro_batches != 1 and (row.pp == 1 or row.vpp > 1)
    return is_yes(row.expert_overlap) and row.ep > 1 and units and zero != 3


def reduces_after(row):
    """ "no", "no, no TP", "none (...)": what a cell begins with is of gradients; "True, no TP
    overlap" and "grad sync overlapped, param sync not" say that they are reduced beside the
    backward."""
    return re.match(r"no(ne)?\b(?! TP)", row.overlap) is not None


def gathers_ahead_of(row):
    """Whether weights are gathered beside the next forward, where the row says so."""
    if has(row.overlap, "no param-gather"):
        return "off"
    ahead = has(row.dist_optimizer, "param-gather") or has(row.overlap, "param-gather")
    return "on" if ahead else ""


def overlaps(row, zero):
    """nanotron without ZeRO has torch's DDP, which reduces beside the last backward (trainer.py,
    make_ddp), whatever the table says of its own sums."""
    ddp = not zero and framework_of(row).startswith("nanotron")
    return zero == 3 or (row.dp > 1 and (ddp or not reduces_after(row)))


def mtp_layers_of(row):
    """DeepSeek-V3 predicts one more token; Megatron-Bridge's tables say where it does not."""
    trained = row.base == "deepseek-v3" and has(row.framework, "Megatron-Bridge")
    return 1 if trained and not has(row.moe, "w/o MTP") else row.mtp_layers


def check_offload(row):
    """--offload activations excludes recomputation. Of pytorch/torchtune@bd2a0fc7, README.md,
    8-bit AdamW comes after offloaded activations of recomputed blocks."""
    if has(row.offload, "True"):
        raise Cannot("what is offloaded to the host is not given")
    if has(row.options, "8-bit"):
        raise Cannot("optimizer states of 8 bits are not modelled")
    if has(row.options, "offload"):
        raise Cannot("offloaded activations of recomputed blocks are not modelled")


def model_options(row, put):
    llama = row.family == "llama"
    dtype, narrow = element_type(row)
    put("model", row.base or ("decoder" if llama else
                              "bert-large" if row.family == "bert" else "gpt-13b"))
    stated = row.layers if row.layers != LAYERS.get(row.base) else 0
    for option, size in (("layers", stated), ("hidden", row.hidden), ("heads", row.heads),
                         ("kv-heads", row.kv_heads if llama else 0), ("ffn", row.ffn),
                         ("seq", row.seq), ("vocab", row.vocab), ("experts", row.experts),
                         ("topk", row.topk), ("expert-ffn", row.moe_ffn),
                         ("shared-ffn", row.shared_ffn), ("dense-layers", row.dense_layers),
                         ("mtp-layers", mtp_layers_of(row))):
        put(option, size or "")
    put("tied", "yes" if row.tied == "True" else "")
    lora = has(row.task, "LoRA") or has(row.model, "LoRA")
    put("lora", LORA_RANK if lora else "")
    put("experts-in-turn", "yes" if sends_once(row) and has(row.routing, "in turn") else "")
    put("dtype", dtype)
    put("fp8", "yes" if narrow == "fp8" else "")
    put("fp8-recipe", fp8_recipe(row) if narrow == "fp8" else "")
    put("fp4", "yes" if narrow == "fp4" else "")
    put("narrow-products", narrow_products(row) if narrow else "")
    put("tf32", "yes" if dtype == "f32" and is_yes(row.tf32) else "")
    stored = has(row.attention, "full") or row.attention == "no"
    put("attention", "full" if stored else "flash")
    put("batch", row.mbs)
    put("expert-capacity", row.expert_capacity)


def drains_of(row):
    """Micro-batches of one run of a pipeline's schedule, where a step has several."""
    if row.pp == 1 or row.local_batch == 0 or row.local_batch >= row.mbs * row.micro_batches:
        return ""
    if row.local_batch % row.mbs != 0 or row.micro_batches * row.mbs % row.local_batch != 0:
        raise Cannot("the local batch does not divide into micro-batches, or those of a step "
                     "into local batches")
    return row.local_batch // row.mbs


def strategy_options(row, put):
    zero, group = zero_of(row), row.dp // copies_of(row)
    zero = 0 if zero and group == 1 < row.dp else zero  # each rank has a copy of its own
    for option, n in (("dp", row.dp), ("pp", row.pp), ("tp", row.tp), ("cp", row.cp),
                      ("ep", row.ep), ("chunks", row.vpp), ("micro-batches", row.micro_batches)):
        put(option, n if n != 1 else "")
    put("etp", 1 if row.etp < row.tp else "")
    interleaved = "interleaved-1f1b" if row.vpp > 1 else ""
    put("schedule", interleaved if row.schedule in ("", "1f1b") else row.schedule)
    put("drain-every", drains_of(row))
    put("partition", row.partition)
    if row.tp > 1:
        put("sequence-parallel", "on" if is_yes(row.seq_parallel) else "off")
    put("tp-overlap", tp_overlap_of(row))
    put("cp-comm-type", row.cp_comm if row.cp > 1 else "")
    put("dispatch-once", topk_of(row) if sends_once(row) else "")
    put("dispatcher", dispatcher_of(row))
    put("expert-overlap", "on" if overlaps_experts(row, zero) else "")
    put("zero", "" if zero is None else zero)
    put("zero-group", group if 1 < group < row.dp else "")
    put("shard-policy", row.shard_policy if zero in (1, 2) and row.dp > 1 else "")
    put("reshard", "off" if has(row.zero, "kept") else "")
    put("overlap", "" if overlaps(row, zero) else "off")
    put("late-replicas", "on" if has(row.overlap, "late replicas") and 1 < group < row.dp else "")
    ahead = gathers_ahead_of(row) if zero in (1, 2) else ""
    put("overlap-param-gather", ahead)
    needed = has(row.dist_optimizer, "on demand") and row.pp > 1 and row.vpp > 1
    put("align-param-gather", "off" if ahead == "on" and needed else "")
    on_host = has(row.offload, "CPU")
    put("offload", "activations" if row.offload_layers > 0 else "update" if on_host else "")
    put("offload-layers", row.offload_layers or "")
    put("recompute", recompute_of(row))
    put("recompute-layers", row.recompute_layers if 0 < row.recompute_layers < row.layers else "")
    put("recompute-modules", parts_of(row))
    put("grad-dtype", "f32" if has(row.precision, "fp32 grad") else row.grad_dtype)


def express(row):
    """The options of `lapwing sim` by title. The order of the checks is that of the reasons."""
    options = {}

    def put(option, value):
        if value != "":
            options[option] = value

    complete_model(row)
    complete_world(row)
    complete_batch(row)
    check_offload(row)
    complete_routing(row)
    cluster = cluster_of(row)
    model_options(row, put)
    put("cluster", cluster)
    put("node-gbps", node_gbps(row))
    put("framework", framework_of(row))
    strategy_options(row, put)
    return options


