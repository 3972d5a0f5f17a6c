"""The configuration of one run: fields from cells, and from what the source says beside them."""
import re

from words import BadInput, Cannot, holds

LARGEST = 1 << 30

# Fields, and the title of the column of each where a table has no other. "" has none.
TEXTS = {
    "gpu": "gpu", "network": "network", "state": "node_state", "model": "model",
    "framework": "framework", "options": "step_variant", "compile": "compile", "zero": "zero",
    "dist_optimizer": "dist_optimizer", "precision": "precision", "recompute": "recompute",
    "attention": "flash_attn", "seq_parallel": "seq_parallel", "overlap": "overlap",
    "offload": "cpu_offload", "task": "task", "moe": "moe_variant",
    "expert_capacity": "expert_capacity", "schedule": "", "partition": "", "family": "",
    "tied": "tied_embeddings", "grad_dtype": "", "expert_overlap": "overlap_ep",
    "dispatcher": "dispatcher", "routing": "moe_routing", "shard_policy": "",
    "cp_comm": "", "tf32": "",
}
NUMBERS = {
    "gpus": "gpus", "gpus_per_node": "gpus_per_node", "layers": "layers", "hidden": "hidden",
    "ffn": "ffn", "heads": "heads", "kv_heads": "kv_heads", "vocab": "vocab", "seq": "seq",
    "gbs": "gbs", "mbs": "mbs", "micro_batches": "grad_accum", "tp": "tp", "pp": "pp",
    "vpp": "vpp", "dp": "dp", "cp": "cp", "ep": "ep", "etp": "etp", "experts": "experts",
    "topk": "topk", "moe_ffn": "moe_ffn", "shared_ffn": "shared_expert_ffn",
    "dense_layers": "dense_layers", "mtp_layers": "", "zero_copies": "", "zero_ranks": "",
    "layers_per_chunk": "",
    "local_batch": "local_batch",  # samples of a data rank in one run of the pipeline's schedule
    "offload_layers": "",  # blocks whose activations go to the host
    "recompute_layers": "",  # blocks that are recomputed whole, where not all are
    "model_parallel": "model_parallel_size", "batch_per_dp": "batch_per_dp",
}


def whole(text):
    """ "128" and "128.0"; None: anything else, as "250k" and ""."""
    if text.endswith(".0"):
        text = text[:-2]
    if not text.isascii() or not text.isdigit() or int(text) > LARGEST:
        return None
    return int(text)


class Row:
    """One attribute per field: texts, "" where the row does not say; numbers, 0 there.

    Of a table, "titles" names columns (a list: [title, factor]), "from" takes a field from a part
    of a cell, "stated" and "assumed" ([value, reason]) fill empty cells (of numbers: those that
    are not whole), "sizes" gives fields by the value of a cell, and "configs" fills those that are
    still empty ("over": all) where the cells are those of a configuration of the source. What a run
    of the table states wins over the cells. `assumed` lists what was assumed for this row.
    """

    def __init__(self, table, run, cells, place):
        self.table, self.run, self.cells, self.place = table, run, cells, place
        self.assumed = []
        self.base = None  # known model that gives what the row does not
        for field in TEXTS:
            setattr(self, field, self.text(field))
        for field in NUMBERS:
            setattr(self, field, self.number(field))
        for sizes in table.get("sizes", []):
            self.take_sizes(sizes)
        for rule in table.get("configs", []):
            if holds(rule["where"], cells):
                for field, value in rule.get("set", {}).items():
                    setattr(self, field, getattr(self, field) or value)
                for field, value in rule.get("over", {}).items():
                    setattr(self, field, value)

    def cell(self, field, default):
        """What the row says of a field, its title, and the factor of a number."""
        for title, expression, *value in self.table.get("from", {}).get(field, []):
            found = re.search(expression, self.cells.get(title, ""))
            if found:
                return value[0] if value else found.group(1), title, 1
        title = self.table.get("titles", {}).get(field, default)
        title, factor = title if isinstance(title, list) else (title, 1)
        return self.cells.get(title, "") if title else "", title, factor

    def setting(self, part, field):
        """The value that a part of the table gives a field, or None; an assumed one is named."""
        if field in part.get("stated", {}):
            return str(part["stated"][field][0])
        if field in part.get("assumed", {}):
            value, reason = part["assumed"][field]
            self.assumed.append(f"{field.replace('_', ' ')} {value}: {reason}")
            return str(value)
        return None

    def text(self, field):
        found = self.cell(field, TEXTS[field])[0]
        wins = self.setting(self.run, field)
        if wins is None and not found:
            wins = self.setting(self.table, field)
        return found if wins is None else wins

    def number(self, field):
        found, title, factor = self.cell(field, NUMBERS[field])
        if re.match(r"-\d", found):
            raise BadInput(f"{self.place}: {title}: found '{found}', expected a whole number of 0 "
                           "or more")
        value = whole(found)
        wins = self.setting(self.run, field)
        if wins is None and value is None:
            wins = self.setting(self.table, field)
        value = (value or 0) * factor if wins is None else whole(wins)
        return value or 0

    def take_sizes(self, sizes):
        """What a source gives by the name of the model, or of the method, in another place."""
        found = sizes["values"].get(self.cells.get(sizes["title"], ""))
        if found is None:
            raise Cannot(sizes["why"])
        for field, value in found.items():
            setattr(self, field, getattr(self, field) or value)
        if "assumed" in sizes:
            self.assumed.append(sizes["assumed"])
