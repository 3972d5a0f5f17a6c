"""A second simulator of a plan file, written from the documents alone: docs/formats/plan.md,
docs/design/engine.md and the alpha-beta costs of docs/design/cost.md. It shares no line with the
program.

It knows streams, dependencies, communicators, group calls, rendezvous messages, variants and
passes; not interference, noise, tables, folding or chunk detail. random_plans.py compares it with
the program. Times are whole picoseconds.
"""
import collections
import heapq
from fractions import Fraction

ELEMENT = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "u8": 1}
COMPUTE = {"forward", "backward", "backward_input", "backward_weight", "optimizer", "kernel"}
COPY = {"copy_in", "copy_out", "copy", "cast"}
COLLECTIVE = {"all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all",
              "barrier"}
MESSAGE = {"send", "recv"}

# The cluster that random_plans.py writes: bytes/s, ps.
PER_NODE, ADAPTERS = 4, 2
INSIDE, BETWEEN = 20 * 10**9, 10 * 10**9
INSIDE_PS, BETWEEN_PS = 3_000_000, 11_000_000
COPY_RATE = 100 * 10**9


def half_up(x):
    return (2 * x.numerator + x.denominator) // (2 * x.denominator)


def transfer_ps(size, rate):
    return half_up(Fraction(size * 10**12, 1) / rate) if size > 0 else 0


# --- costs ---


def rate_of(members, world):
    """Of a ring or chain: its slowest link. All wait for the node with the fewest members."""
    on_node = collections.Counter(m // PER_NODE for m in members)
    if len(on_node) == 1:
        return Fraction(INSIDE)
    fewest = min(on_node.values())
    share = Fraction(min(-(-fewest * ADAPTERS // PER_NODE), ADAPTERS), ADAPTERS)
    if len(members) != world:  # others may use the adapters that the group does not reach
        share = min(share, Fraction(fewest, PER_NODE))
    between = BETWEEN * ADAPTERS * share
    return between if len(members) == len(on_node) else min(Fraction(INSIDE), between)


def cost(kind, dtype, size, members, world):
    n, nodes = len(members), len({m // PER_NODE for m in members})
    if n == 1:
        return 0
    rate = rate_of(members, world)
    element = ELEMENT[dtype] if size % ELEMENT[dtype] == 0 else 1
    chunk = -(-(size // element) // n) * element

    def latency(steps):
        trips, rest = divmod(steps, n)
        crossings = trips * nodes + min(rest, nodes) if nodes > 1 else 0
        return crossings * BETWEEN_PS + (steps - crossings) * INSIDE_PS

    if kind == "barrier":
        return latency(2 * (n - 1))
    steps = {"all_reduce": 2 * (n - 1), "reduce_scatter": n - 1, "all_gather": n - 1}.get(kind)
    if steps:
        return steps * transfer_ps(chunk, rate) + latency(steps)
    return transfer_ps(size, rate) + latency(n - 1)


# --- programs ---


def ps_of(ns):
    return int(Fraction(str(ns)) * 1000)


def units_of(ops, first, n):
    """A program's units (an op, or the ops of a group call) and those that each waits for."""
    unit_of, parts, calls = [], [], {}
    for i in range(first, first + n):
        call = ops[i].get("call", -1)
        u = calls.get(call, len(parts)) if call >= 0 else len(parts)
        if u == len(parts):
            parts.append([])
        if call >= 0:
            calls[call] = u
        unit_of.append(u)
        parts[u].append(i)
    before = [set() for _ in parts]
    last = {}  # the unit of a stream or communicator
    for i, u in enumerate(unit_of):
        op = ops[first + i]
        before[u].update(unit_of[d - first] for d in op.get("deps", []))
        for what in ("stream", "comm"):
            if what in op:
                before[u] |= last.get((what, op[what]), set())
                last[what, op[what]] = {u}
        before[u].discard(u)
    return parts, before


class Run:
    """start, end and all_in of every (pass, rank, op) after run()."""

    def __init__(self, plan, passes):
        self.plan, self.passes, self.ops = plan, passes, plan["ops"]
        self.roles = [r["role"] for r in plan["ranks"]]
        self.world = len(self.roles)
        seen = collections.Counter()
        self.index = []
        for role in self.roles:
            self.index.append(seen[role])
            seen[role] += 1
        groups = [g["members"] for g in plan.get("groups", [])]
        self.members = {}  # (comm, rank): the members of its group
        for c, comm in enumerate(plan.get("comms", [])):
            for g in comm["groups"]:
                for m in groups[g]:
                    self.members[c, m] = groups[g]
        self.programs = {(p["variant"], p["role"]): units_of(self.ops, p["first_op"], p["n_ops"])
                         for p in plan["programs"]}
        self.start, self.end, self.all_in = {}, {}, {}
        self.events, self.n_events = [], 0
        self.now_in = [-1] * self.world  # pass of each rank
        self.state = [None] * self.world
        self.entered = {}   # (comm, first member): who entered its collective
        self.waiting = {}   # (comm, from, to): messages that wait for their other end

    def at(self, time, what, *args):
        self.n_events += 1
        heapq.heappush(self.events, (time, self.n_events, what, args))

    def operand(self, op, rank):
        size, peer = op.get("bytes", 0), op.get("peer", -1)
        if "operand" in op:
            row = self.plan["operands"][op["operand"]]["of_ranks"][self.index[rank]]
            size, peer = row.get("bytes", size), row.get("peer", peer)
        return size, peer

    def own_work(self, op):
        """None: by the cluster."""
        ns = self.plan["works"][op["work"]].get("ns") if "work" in op else op.get("work_ns", 0)
        return None if ns is None else ps_of(ns)

    def begin_pass(self, rank, time):
        self.now_in[rank] += 1
        if self.now_in[rank] == len(self.passes):
            return
        parts, before = self.programs[self.passes[self.now_in[rank]], self.roles[rank]]
        after = [[] for _ in parts]
        for u, needed in enumerate(before):
            for v in needed:
                after[v].append(u)
        self.state[rank] = {"parts": parts, "missing": [len(b) for b in before], "after": after,
                            "left": len(parts), "ends": {}}
        for u, needed in enumerate(before):
            if not needed:
                self.at(time, self.enter, rank, u)

    def enter(self, time, rank, unit):
        part = self.state[rank]["parts"][unit]
        op = self.ops[part[0]]
        for i in part:
            self.start[self.now_in[rank], rank, i] = time
        if op["kind"] in MESSAGE:
            self.state[rank]["ends"][unit] = len(part)
            for i in part:
                self.meet(time, rank, unit, i)
        elif op["kind"] in COLLECTIVE:
            self.gather(time, rank, unit, part[0])
        else:
            work = self.own_work(op)
            if work is None:
                assert op["kind"] in COPY, op["kind"]
                work = transfer_ps(self.operand(op, rank)[0], COPY_RATE)
            self.at(time + work, self.complete, rank, unit)

    def meet(self, time, rank, unit, i):
        op = self.ops[i]
        size, peer = self.operand(op, rank)
        ends = (rank, peer) if op["kind"] == "send" else (peer, rank)
        queue = self.waiting.setdefault((op["comm"],) + ends, [])
        if not queue or queue[0][0] == op["kind"]:
            queue.append((op["kind"], rank, unit, i, size, self.now_in[rank]))
            return
        _, other, other_unit, j, other_size, other_pass = queue.pop(0)
        assert other_size == size, (size, other_size)
        work = self.own_work(op)
        if work is None or (work == 0 and size > 0):
            work = cost("send", op.get("dtype", "f32"), size, ends, self.world)
        self.all_in[self.now_in[rank], rank, i] = self.all_in[other_pass, other, j] = time
        self.at(time + work, self.delivered, ((rank, unit), (other, other_unit)))

    def delivered(self, time, ends):
        for rank, unit in ends:
            self.state[rank]["ends"][unit] -= 1
            if self.state[rank]["ends"][unit] == 0:
                self.complete(time, rank, unit)

    def gather(self, time, rank, unit, i):
        op = self.ops[i]
        members = self.members[op["comm"], rank]
        entered = self.entered.setdefault((op["comm"], members[0]), [])
        entered.append((rank, unit, i))
        if len(entered) < len(members):
            return
        self.entered[op["comm"], members[0]] = []
        assert len({self.ops[x[2]]["kind"] for x in entered}) == 1
        size = max(self.operand(self.ops[x[2]], x[0])[0] for x in entered)
        work = self.own_work(op) or cost(op["kind"], op.get("dtype", "f32"), size, members,
                                         self.world)
        for r, _, j in entered:
            self.all_in[self.now_in[r], r, j] = time
        self.at(time + work, self.reduced, entered)

    def reduced(self, time, entered):
        for rank, unit, _ in entered:
            self.complete(time, rank, unit)

    def complete(self, time, rank, unit):
        state = self.state[rank]
        for i in state["parts"][unit]:
            self.end[self.now_in[rank], rank, i] = time
        for v in state["after"][unit]:
            state["missing"][v] -= 1
            if state["missing"][v] == 0:
                self.at(time, self.enter, rank, v)
        state["left"] -= 1
        if state["left"] == 0:
            self.begin_pass(rank, time)

    def run(self):
        for rank in range(self.world):
            self.begin_pass(rank, 0)
        while self.events:
            time, _, what, args = heapq.heappop(self.events)
            what(time, *args)
        assert all(n == len(self.passes) for n in self.now_in), "ranks wait for ever"
        return self


# --- measures ---


def union_ps(intervals):
    """Time that at least one interval covers."""
    total, until = 0, None
    for a, b in sorted(x for x in intervals if x[1] > x[0]):
        if until is None or a > until:
            total, until = total + b - a, b
        elif b > until:
            total, until = total + b - until, b
    return total


def busy(run, step_of):
    """Of the last step: its period (None: the first), and of each rank the busy times."""
    last = step_of[-1]
    mine = [k for k in run.start if step_of[k[0]] == last]
    before = [run.end[k] for k in run.end if step_of[k[0]] == last - 1]
    period = max(run.end[k] for k in mine) - max(before) if before else None
    ranks = [collections.defaultdict(list) for _ in range(run.world)]
    for k in mine:
        kind = run.ops[k[2]]["kind"]
        name = "compute" if kind in COMPUTE else "copy" if kind in COPY else \
            "comm" if kind in COLLECTIVE or kind in MESSAGE else "other"
        ranks[k[1]][name].append((run.start[k], run.end[k]))
    return period, [{n: union_ps(r[n]) for n in ("compute", "copy", "comm")} for r in ranks]
