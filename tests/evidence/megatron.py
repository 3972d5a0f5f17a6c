"""Arguments of Megatron-LM -> the options of `lapwing sim`, one rule each.

The titles of the table are names of arguments without dashes; an empty cell is an argument that
is not given. Defaults are those of megatron/training/arguments.py and
megatron/core/transformer/transformer_config.py (NVIDIA/Megatron-LM@d98e8a64). An argument that
changes what a device holds and has no option is refused by name. Arguments without a rule change
no byte that a device holds: cp-comm-type, averages among collectives, the learning rate, logging;
overlap-moe-expert-parallel-comm too, whose forward takes a layer's activations while a backward
frees another's (megatron/core/pipeline_parallel/combined_1f1b.py).
"""
import math
import re

from words import CONTEXT_OF_STATES, Cannot

CLUSTERS = {"A100": "dgx-a100", "H100": "dgx-h100", "GB200": "gb200"}
BERT_VOCAB = 30522  # word pieces of lower case (examples/bert/pretrain_bert.py), where none is
T5_VOCAB = 28996  # of bert-large-cased-vocab.txt, beside which are --vocab-extra-ids

# Arguments that nothing here expresses, the cells that ask for something, and what it is.
REFUSED = [
    ("family", ("multimodal-llava", "mimo"), "a model of images and text is not modelled"),
    ("use-megatron-fsdp", ("true",), "use-megatron-fsdp is not modelled"),
    ("fine-grained-activation-offloading", ("true",),
     "offloaded tensors of a part of a block are not modelled"),
    ("cuda-graph-impl", None, "cuda-graph-impl: pools of captured graphs are not modelled"),
    ("main-params-dtype", ("bf16", "fp16", "fp8"), "main-params-dtype is not modelled"),
    ("exp-avg-dtype", ("bf16", "fp16", "fp8"), "exp-avg-dtype is not modelled"),
    ("exp-avg-sq-dtype", ("bf16", "fp16", "fp8"), "exp-avg-sq-dtype is not modelled"),
]
OTHER_REFUSED = [
    ("export-kd", "a teacher beside the model is not modelled"),
    ("flextron", "widths that change from step to step are not modelled"),
]


class Arguments:
    def __init__(self, cells):
        self.cells = cells

    def text(self, name, default=""):
        return self.cells.get(name, "") or default

    def number(self, name, default=0):
        cell = self.text(name)
        return int(float(cell)) if cell else default

    def on(self, name):
        return self.text(name) == "true"

    def other(self, name):
        """Of the arguments without a title: "name=value", a space between each."""
        for word in self.text("other_args").split():
            key, _, value = word.partition("=")
            if key == name:
                return value
        return ""


def is_bumped_lts(a):
    """Files of this name are of the commit that replaced the lts image, whose recipes run its tests
    on dgx_a100 alone (NVIDIA/Megatron-LM@23a1dcaf, tests/test_utils/recipes/gpt.yaml, moe.yaml)."""
    return a.text("platform") == "lts"


def device_of(a):
    return a.text("gpu") or ("A100" if is_bumped_lts(a) else "")


def gpus_of(a):
    """Where no state is shared by data ranks and no experts are, as much is held on two replicas as
    on more; 0: not known, and it matters."""
    shares = a.on("use-distributed-optimizer") or a.number("num-experts") or \
        a.text("optimizer", "adam") == "dist_muon" or a.on("use-megatron-fsdp")
    ranks = math.prod(a.number(x + "-parallel-size", 1)
                      for x in ("tensor-model", "pipeline-model", "context"))
    known = a.number("n_gpus")
    return known or (0 if shares else 2 * ranks)


def check(a):
    for name, words, why in REFUSED:
        cell = a.text(name)
        if cell and (words is None or cell in words):
            raise Cannot(why)
    for name, why in OTHER_REFUSED:
        if name in a.text("other_args"):
            raise Cannot(why)
    if not device_of(a):
        raise Cannot("the device is not given")
    if gpus_of(a) == 0:
        raise Cannot("the number of devices is not given")
    if not a.text("padded_vocab_derived") and a.text("family") not in ("bert", "t5"):
        raise Cannot("the size of the vocabulary is not known")


def dtype_of(a):
    return "bf16" if a.on("bf16") else "f16" if a.on("fp16") else "f32"


def has_dropout(a):
    """Fused attention keeps no mask of its dropout."""
    rates = [float(a.text(x, "0.1")) for x in ("attention-dropout", "hidden-dropout")]
    if attention_of(a) == "full" and (rates[0] > 0) != (rates[1] > 0):
        raise Cannot("dropout of attention alone, or of the rest alone, is not modelled")
    return rates[1] > 0


def ffn_of(a):
    hidden = a.number("hidden-size")
    gated = int(4 * hidden * 2 / 3 / 64) * 64 if a.on("swiglu") else 4 * hidden
    return a.number("ffn-hidden-size", gated)


def has_old_attention(a):
    """Of an older container a deterministic run on A100 stores scores unless a backend is named.

    Until NVIDIA/Megatron-LM@23a1dcaf (.gitlab/stages/01.build.yml) the lts image was
    pytorch:24.01-py3 with TransformerEngine 1.2, which takes neither FlashAttention 2 nor, before
    Hopper, cuDNN's attention for a deterministic run (NVIDIA/TransformerEngine@4f9662fb,
    transformer_engine/pytorch/attention.py, DotProductAttention: Filter: determinism).
    """
    old = a.text("env") == "lts" and a.text("recipe_lists_it") == "0" and \
        a.text("gpu") == "A100" and not is_bumped_lts(a)
    return old and a.on("deterministic-mode") and \
        a.text("attention-backend", "auto") == "auto"


def attention_of(a):
    full = a.text("transformer-impl") == "local" or \
        a.text("attention-backend") in ("unfused", "local") or has_old_attention(a)
    return "full" if full else "flash"


def put_experts(a, put):
    experts = a.number("num-experts")
    if not experts:
        return
    put("experts", experts)
    put("topk", a.number("moe-router-topk", 2))
    put("expert-ffn", a.number("moe-ffn-hidden-size", ffn_of(a)))
    put("shared-ffn", a.number("moe-shared-expert-intermediate-size") or "")
    put("serial-experts", "" if a.on("moe-grouped-gemm") else "yes")
    gathered = a.text("moe-token-dispatcher-type", "allgather") == "allgather"
    put("gathered-experts", "yes" if gathered else "")
    put("fused-permute", "yes" if a.on("moe-permute-fusion") else "")
    freq = re.fullmatch(r"\(?(?:\[0\]\*(\d+)\+)?\[1\]\*\d+\)?|1?", a.text("moe-layer-freq"))
    if not freq:
        raise Cannot("moe-layer-freq of another pattern than dense blocks first is not modelled")
    put("dense-layers", freq.group(1) or "")


def put_head(a, usual, put):
    """Widths of a head; defaults are those of megatron/training/arguments.py."""
    width = a.number("qk-head-dim", 128) if a.on("multi-latent-attention") \
        else a.number("kv-channels", usual)
    put("head-width", width if width != usual else "")
    if a.on("multi-latent-attention"):
        put("q-lora", a.number("q-lora-rank") or "")
        put("kv-lora", a.number("kv-lora-rank", 32))
        put("rope-width", a.number("qk-pos-emb-head-dim", 64))
        put("v-width", a.number("v-head-dim", 128))


def put_decoder(a, put):
    hidden, heads = a.number("hidden-size"), a.number("num-attention-heads")
    put("model", "decoder")
    put("kv-heads", a.number("num-query-groups", heads) or heads)
    put_head(a, hidden // heads, put)
    put("ffn", ffn_of(a))
    put("vocab", a.number("padded_vocab_derived"))
    position = put_positions(a, put)
    if position not in ("learned_absolute", "rope"):
        raise Cannot("position-embedding-type " + position + " is not modelled")
    put("tied", "" if a.on("untie-embeddings-and-output-weights") else "yes")
    put("layer-norm", "" if a.text("normalization") == "RMSNorm" else "yes")
    put("plain-ffn", "" if a.on("swiglu") else "yes")
    put("biases", "" if a.on("disable-bias-linear") else "yes")
    put("qk-norm", "yes" if a.on("qk-layernorm") else "")
    put("dropout", "yes" if has_dropout(a) else "")
    put_experts(a, put)
    put("mtp-layers", a.number("mtp-num-layers") or "")


def put_positions(a, put):
    position = a.text("position-embedding-type", "learned_absolute")
    if position == "learned_absolute":
        put("positions", a.number("max-position-embeddings"))
    return position


def pattern_of(a):
    """Letters of layers; a bar between stages, a slash before each pass for further tokens."""
    return a.text("hybrid-override-pattern") or a.other("hybrid-layer-pattern")


def put_further(a, passes, put):
    if not passes:
        return
    if any(p != "*E" for p in passes) or a.other("mtp-use-repeated-layer") != "True":
        raise Cannot("layers for further tokens other than repeated ones of attention and experts "
                     "are not modelled")
    put("mtp-layers", len(passes))


def put_hybrid(a, put):
    """Sizes that are not given: megatron/core/transformer/transformer_config.py, mamba_*; heads,
    megatron/core/ssm/mamba_mixer.py: of twice the hidden size."""
    hidden, heads = a.number("hidden-size"), a.number("num-attention-heads")
    layers, *passes = pattern_of(a).split("/")
    width = a.number("mamba-head-dim", 64)
    put("model", "nemotron-h-8b")
    put("layer-pattern", layers.replace("|", ""))
    if "M" in layers:
        put("ssm-heads", int(a.other("mamba-num-heads") or 2 * hidden // width))
        put("ssm-head-width", width)
        put("ssm-groups", a.number("mamba-num-groups", 8))
        put("ssm-state", a.number("mamba-state-dim", 128))
    put("kv-heads", a.number("num-query-groups", heads) or heads)
    put("head-width", a.number("kv-channels", hidden // heads))
    put("ffn", ffn_of(a) if "-" in layers else "")
    put("vocab", a.number("padded_vocab_derived"))
    if "M" in layers and a.number("context-parallel-size", 1) > 1:
        raise Cannot(CONTEXT_OF_STATES)
    if a.on("swiglu") or a.on("qk-layernorm") or a.on("multi-latent-attention"):
        raise Cannot("gated pairs, norms of queries or latent attention in a hybrid are not "
                     "modelled")
    if put_positions(a, put) == "rope":
        raise Cannot("a rotation in a hybrid is not modelled")
    put("tied", "" if a.on("untie-embeddings-and-output-weights") else "yes")
    put("layer-norm", "" if a.text("normalization") == "RMSNorm" else "yes")
    put("biases", "" if a.on("disable-bias-linear") else "yes")
    put("dropout", "yes" if has_dropout(a) else "")
    if "E" in layers or passes:
        put_experts(a, put)
        put("expert-latent", a.other("moe-latent-size"))
    put_further(a, passes, put)


def layer_wise(a):
    """Whole matrices to ranks (megatron/training/training.py: Muon with a distributed
    optimizer)."""
    optimizer = a.text("optimizer", "adam")
    return optimizer == "dist_muon" or (optimizer == "muon" and a.on("use-distributed-optimizer"))


def put_t5(a, put):
    """An encoder and a decoder of as many layers: examples/t5/pretrain_t5.py."""
    if a.text("encoder-num-layers") != a.text("decoder-num-layers"):
        raise Cannot("an encoder of other layers than the decoder is not modelled")
    put("model", "megatron-t5")
    put("vocab", T5_VOCAB + int(a.other("vocab-extra-ids") or 0))
    put("ffn", ffn_of(a))
    put("decoder-seq", a.number("decoder-seq-length"))
    put("positions", a.number("max-position-embeddings"))
    if a.number("kv-channels", 0) not in (0, a.number("hidden-size") //
                                          a.number("num-attention-heads")):
        raise Cannot("heads of another width than hidden / heads in T5 are not modelled")


def put_model(a, put):
    t5 = a.text("family") == "t5"
    if t5:
        put_t5(a, put)
    elif a.text("family") == "bert":
        put("model", "megatron-bert")
        put("vocab", BERT_VOCAB)
        put("tied", "yes")
    elif pattern_of(a):
        put_hybrid(a, put)
    else:
        put_decoder(a, put)
    layers = a.number("encoder-num-layers" if t5 else "num-layers")
    put("layers", "" if pattern_of(a) else layers)
    put("hidden", a.number("hidden-size"))
    put("heads", a.number("num-attention-heads"))
    put("seq", a.number("encoder-seq-length" if t5 else "seq-length"))
    put("dtype", dtype_of(a))
    put("fp8", "yes" if a.text("fp8-format") else "")
    put("fp8-recipe", a.text("fp8-recipe") if a.text("fp8-format") else "")
    put("attention", attention_of(a))
    put("f32-softmax", "yes" if a.other("no-masked-softmax-fusion") == "True" and
        attention_of(a) == "full" else "")
    put("fused-loss", "yes" if a.on("cross-entropy-loss-fusion") else "")
    put("deterministic", "yes" if a.on("deterministic-mode") else "")
    put("batch", a.number("micro-batch-size"))
    optimizer = a.text("optimizer", "adam")
    if optimizer not in ("adam", "muon", "dist_muon"):
        raise Cannot("the optimizer (" + optimizer + ") is not modelled")
    if layer_wise(a) and a.other("no-use-layer-wise-param-layout") != "True":
        raise Cannot("a layer-wise optimizer whose buckets are laid out by rank is not modelled")
    put("optimizer", "" if optimizer == "adam" else "muon")


def chunks_of(a, pp):
    layers, own = a.number("num-layers"), a.number("num-layers-per-virtual-pipeline-stage")
    ends = a.on("account-for-embedding-in-pipeline-split") + \
        a.on("account-for-loss-in-pipeline-split")
    if pp > 1 and own:
        return (layers + ends) // pp // own
    return a.number("num-virtual-stages-per-pipeline-rank", 1) if pp > 1 else 1


def layout_of(text):
    """Parts of "Et*3|(tt|)*6mL" in order: embedding, layers, layers of further tokens, loss."""
    while "(" in text:
        head, _, rest = text.rpartition("(")
        inner, _, tail = rest.partition(")")
        times = re.match(r"\*(\d+)", tail)
        n = int(times.group(1)) if times else 1
        text = head + inner * n + tail[times.end() if times else 0:]
    return re.sub(r"(.)\*(\d+)", lambda x: x.group(1) * int(x.group(2)), text).split("|")


def put_layout(a, pp, put):
    parts = layout_of(a.text("pipeline-model-parallel-layout"))
    if len(parts) % pp != 0:
        raise Cannot("the layout's parts do not divide into stages")
    starts = [0]
    for part in parts[:-1]:
        starts.append(starts[-1] + len(part))
    if any(x >= y for x, y in zip(starts, starts[1:])) or not parts[-1]:
        raise Cannot("the layout has an empty part")
    put("partition", "explicit")
    put("partition-list", ",".join(str(s) for s in starts))
    return len(parts) // pp


def put_stages(a, pp, put):
    """Bars of a pattern: the embedding is before the first layer."""
    parts = pattern_of(a).split("/")[0].split("|")
    starts = [0] + [1 + sum(len(p) for p in parts[:i]) for i in range(1, len(parts))]
    if len(parts) % pp != 0:
        raise Cannot("the pattern's parts do not divide into stages")
    put("partition", "explicit")
    put("partition-list", ",".join(str(s) for s in starts))
    return len(parts) // pp


def put_partition(a, pp, put):
    """Chunks of a stage."""
    if "|" in pattern_of(a) and pp > 1:
        return put_stages(a, pp, put)
    if a.text("pipeline-model-parallel-layout") and pp > 1:
        return put_layout(a, pp, put)
    ends = [("first-layers", a.number("decoder-first-pipeline-num-layers") or ""),
            ("last-layers", a.number("decoder-last-pipeline-num-layers") or ""),
            ("count-embedding", "on" if a.on("account-for-embedding-in-pipeline-split") else ""),
            ("count-loss", "on" if a.on("account-for-loss-in-pipeline-split") else "")]
    if pp > 1:
        put("partition", "megatron")
        for option, value in ends:
            put(option, value)
    return chunks_of(a, pp)


def put_experts_groups(a, tp, ranks, put):
    """Experts are split over the tensor group unless expert-tensor-parallel-size says otherwise;
    ep is then of data and context ranks alone, as in a plan."""
    ep, etp = a.number("expert-model-parallel-size", 1), a.number("expert-tensor-parallel-size", tp)
    if not a.number("num-experts"):
        return
    if etp not in (1, tp):
        raise Cannot("the expert tensor group has a size other than 1 or tp")
    if etp < tp:
        if ep % tp != 0:
            raise Cannot("expert ranks are not a multiple of the tensor group")
        ep //= tp
        put("whole-experts", "yes")
    if ranks % ep != 0:
        raise Cannot("expert ranks do not divide data and context ranks")
    put("ep", ep if ep > 1 else "")


def head_waits_of(a, pp, micro_batches):
    """Micro-batches before the last whose gradients of the head's weights wait: at most the limit,
    0 = all (megatron/core/tensor_parallel/layers.py)."""
    if pp == 1 or a.other("defer-embedding-wgrad-compute") != "True":
        return ""
    limit = int(a.other("wgrad-deferral-limit") or 0)
    return min(limit or micro_batches, micro_batches - 1) or ""


def put_recompute(a, put):
    """Uniform: each group of N blocks keeps its input; block: the first N blocks of a chunk."""
    granularity, method = a.text("recompute-granularity"), a.text("recompute-method")
    n = a.number("recompute-num-layers", 1)
    if granularity == "selective":
        put("recompute", "selective")
        modules = a.text("recompute-modules", "core_attn").strip("[]").replace(" ", ",")
        put("recompute-modules", "" if modules == "core_attn" else modules)
    elif granularity == "full":
        put("recompute", "full")
        put("recompute-method", "uniform" if method == "uniform" and n > 1 else "")
        put("recompute-layers", n if method == "block" or (method == "uniform" and n > 1) else "")


def put_strategy(a, put):
    tp, pp = (a.number(x + "-model-parallel-size", 1) for x in ("tensor", "pipeline"))
    cp, gpus = a.number("context-parallel-size", 1), gpus_of(a)
    dp = gpus // (tp * pp * cp)
    if dp * tp * pp * cp != gpus:
        raise Cannot("devices are not a multiple of tp * pp * cp")
    samples = a.number("micro-batch-size") * dp
    if a.number("global-batch-size") % samples != 0:
        raise Cannot("the global batch does not divide into micro-batches")
    chunks = put_partition(a, pp, put)
    for option, n in (("dp", dp), ("pp", pp), ("tp", tp), ("cp", cp), ("chunks", chunks)):
        put(option, n if n != 1 else "")
    put("micro-batches", a.number("global-batch-size") // samples)
    put("head-waits", head_waits_of(a, pp, a.number("global-batch-size") // samples))
    put("schedule", "interleaved-1f1b" if chunks > 1 else "")
    turn = a.number("microbatch-group-size-per-virtual-pipeline-stage", pp)
    put("micro-batch-group", turn if chunks > 1 and turn != pp else "")
    put_experts_groups(a, tp, dp * cp, put)
    if tp > 1:
        put("sequence-parallel", "on" if a.on("sequence-parallel") else "off")
        put("tp-overlap", "pieces" if a.on("tp-comm-overlap") else "")
    copies = a.number("num-distributed-optimizer-instances", 1)
    group = dp * cp // copies  # ranks that have the optimizer's state together
    zero = 1 if a.on("use-distributed-optimizer") and (group > 1 or dp * cp == 1) else 0
    put("zero", zero)
    put("shard-policy", "ping-pong" if zero and layer_wise(a) else "")
    put("zero-group", group if zero and 1 < group < dp * cp else "")
    put("overlap", "" if a.on("overlap-grad-reduce") else "off")
    put("overlap-param-gather", "on" if zero and a.on("overlap-param-gather") else "")
    put_recompute(a, put)
    halves = a.on("grad-reduce-in-bf16") or a.text("main-grads-dtype") == "bf16"
    put("grad-dtype", "f32" if a.on("bf16") and not halves or
        a.on("accumulate-allreduce-grads-in-fp32") else "param")


def express(cells):
    """The options of `lapwing sim` by title, and the number of devices."""
    options, a = {}, Arguments(cells)

    def put(option, value):
        if value != "":
            options[option] = value

    check(a)
    put_model(a, put)
    put("cluster", CLUSTERS[device_of(a)])
    put("assumed", "" if a.number("n_gpus") else "two replicas: data ranks share no state")
    put("framework", "megatron-lm-local" if a.text("transformer-impl") == "local"
        else "megatron-lm")
    put_strategy(a, put)
    return options, gpus_of(a)
