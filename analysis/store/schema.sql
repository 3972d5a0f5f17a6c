-- The results database. All times are integer picoseconds (columns *_ps), so that a run read back
-- is the run that was stored; the views show nanoseconds, rounded half up. -1 = none or unknown, as
-- in the structures of shared/; NULL = was not given. docs/formats/schema.md explains every column.
--
-- Each part below is run once, in order, on databases whose user_version is less than its number.

-- version 1
CREATE TABLE op_kind ( -- names of span.kind, so that numbers mean the same in every version
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,  -- all_reduce
    letter TEXT NOT NULL,
    class TEXT NOT NULL         -- compute, copy, collective, p2p, memory, host
) STRICT;

CREATE TABLE plan (             -- one row per plan hash
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    n_ranks INTEGER NOT NULL,
    n_stages INTEGER NOT NULL,
    n_params INTEGER NOT NULL,
    n_buckets INTEGER NOT NULL,
    n_ops INTEGER NOT NULL,
    bucket_cap_bytes INTEGER NOT NULL,
    repeat_from INTEGER NOT NULL,
    workload_hash TEXT,
    cluster_name TEXT
) STRICT;

CREATE TABLE plan_option (      -- the strategy, in the words of the command line
    plan INTEGER NOT NULL REFERENCES plan(id),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (plan, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE plan_note (        -- decisions and their rules
    plan INTEGER NOT NULL REFERENCES plan(id),
    note INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (plan, note)
) STRICT, WITHOUT ROWID;

CREATE TABLE plan_rank (
    plan INTEGER NOT NULL REFERENCES plan(id),
    rank INTEGER NOT NULL,
    role INTEGER NOT NULL,
    role_name TEXT NOT NULL,
    index_in_role INTEGER NOT NULL,
    dp INTEGER NOT NULL,
    pp INTEGER NOT NULL,
    tp INTEGER NOT NULL,
    PRIMARY KEY (plan, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE stream (
    plan INTEGER NOT NULL REFERENCES plan(id),
    stream INTEGER NOT NULL,
    name TEXT NOT NULL,
    class TEXT NOT NULL,        -- compute, comm, copy, host
    priority INTEGER NOT NULL,
    PRIMARY KEY (plan, stream)
) STRICT, WITHOUT ROWID;

CREATE TABLE comm (             -- classes of communicators
    plan INTEGER NOT NULL REFERENCES plan(id),
    comm INTEGER NOT NULL,
    name TEXT NOT NULL,
    reducer TEXT NOT NULL,
    stream INTEGER NOT NULL,
    PRIMARY KEY (plan, comm)
) STRICT, WITHOUT ROWID;

CREATE TABLE comm_rank (        -- the group that a rank is in, in a class of communicators
    plan INTEGER NOT NULL REFERENCES plan(id),
    comm INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    member_group INTEGER NOT NULL,
    PRIMARY KEY (plan, comm, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE param (
    plan INTEGER NOT NULL REFERENCES plan(id),
    param INTEGER NOT NULL,
    name TEXT NOT NULL,
    numel INTEGER NOT NULL,
    dtype TEXT NOT NULL,
    stage INTEGER NOT NULL,
    module INTEGER NOT NULL,
    trainable INTEGER NOT NULL,
    PRIMARY KEY (plan, param)
) STRICT, WITHOUT ROWID;

CREATE TABLE bucket (           -- numbered as in the plan; launch = place in its set
    plan INTEGER NOT NULL REFERENCES plan(id),
    bucket INTEGER NOT NULL,
    set_name TEXT NOT NULL,     -- initial, rebuilt
    stage INTEGER NOT NULL,
    launch INTEGER NOT NULL,
    dtype TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    limit_bytes INTEGER NOT NULL,
    n_params INTEGER NOT NULL,
    PRIMARY KEY (plan, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE slot (             -- where each gradient lies in its bucket
    plan INTEGER NOT NULL REFERENCES plan(id),
    bucket INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    param INTEGER NOT NULL,
    offset INTEGER NOT NULL,    -- in elements
    PRIMARY KEY (plan, bucket, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE pass (             -- pass i runs variant; after the last, on from plan.repeat_from
    plan INTEGER NOT NULL REFERENCES plan(id),
    pass INTEGER NOT NULL,
    variant INTEGER NOT NULL,
    PRIMARY KEY (plan, pass)
) STRICT, WITHOUT ROWID;

CREATE TABLE program (          -- the ops of a role in a variant: [first_op, first_op + n_ops)
    plan INTEGER NOT NULL REFERENCES plan(id),
    variant INTEGER NOT NULL,
    role INTEGER NOT NULL,
    variant_name TEXT NOT NULL, -- first, accumulate, steady
    ends_step INTEGER NOT NULL,
    first_op INTEGER NOT NULL,
    n_ops INTEGER NOT NULL,
    PRIMARY KEY (plan, variant, role)
) STRICT, WITHOUT ROWID;

CREATE TABLE op (               -- numbered through all programs of the plan
    plan INTEGER NOT NULL REFERENCES plan(id),
    op INTEGER NOT NULL,
    kind TEXT NOT NULL,
    class TEXT NOT NULL,
    dtype TEXT NOT NULL,
    stream INTEGER NOT NULL,
    comm INTEGER NOT NULL,
    call INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    work_ps INTEGER NOT NULL,   -- -1 = timed by the cluster
    peer INTEGER NOT NULL,
    operand INTEGER NOT NULL,   -- row of operands that replaces bytes and peer by rank; -1 = none
    module INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    micro_batch INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (plan, op)
) STRICT, WITHOUT ROWID;

CREATE TABLE operand (
    plan INTEGER NOT NULL REFERENCES plan(id),
    row INTEGER NOT NULL,
    index_in_role INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    peer INTEGER NOT NULL,
    PRIMARY KEY (plan, row, index_in_role)
) STRICT, WITHOUT ROWID;

CREATE TABLE dep (              -- op starts after dep
    plan INTEGER NOT NULL REFERENCES plan(id),
    op INTEGER NOT NULL,
    dep INTEGER NOT NULL,
    PRIMARY KEY (plan, op, dep)
) STRICT, WITHOUT ROWID;

CREATE TABLE ready (            -- the gradient of param is complete (copy_in: copied) when op ends
    plan INTEGER NOT NULL REFERENCES plan(id),
    op INTEGER NOT NULL,
    param INTEGER NOT NULL,
    PRIMARY KEY (plan, op, param)
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('sim', 'exec', 'import')),
    status TEXT NOT NULL CHECK (status IN ('running', 'ok', 'failed', 'timeout')),
    message TEXT NOT NULL DEFAULT '',
    plan INTEGER REFERENCES plan(id),
    workload_name TEXT,
    workload_hash TEXT,
    workload_from TEXT,         -- producer and file of the recording
    cluster_name TEXT,
    cluster_hash TEXT,
    backend TEXT,               -- exec: threads, mpi, nccl
    honesty TEXT,               -- exec: real, spin, sleep, emulated, then ", paced", ", emulated"
    seed INTEGER NOT NULL DEFAULT 0,
    n_warmup INTEGER NOT NULL DEFAULT 0, -- first steps that are not measured
    command TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL,      -- of lapwing
    started_at INTEGER NOT NULL,-- seconds since 1970
    ended_at INTEGER,
    first_span INTEGER,         -- the run's spans have ids in [first_span, last_span]
    last_span INTEGER,
    n_spans INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE span (             -- one op that ran; a run's rows ascend by (step, pass, rank, op)
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    pass INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    op INTEGER NOT NULL,
    kind INTEGER NOT NULL,      -- op_kind.id
    stream INTEGER NOT NULL,
    comm INTEGER NOT NULL,
    ready_ps INTEGER NOT NULL,
    issue_ps INTEGER NOT NULL,
    start_ps INTEGER NOT NULL,
    all_in_ps INTEGER NOT NULL,
    end_ps INTEGER NOT NULL
) STRICT;

-- Of a run of more than 4096 ranks, a rank whose figures are those of the rank before it has no
-- rows of its own: they are those of the last rank before it that has some.
CREATE TABLE metric ( -- step -1: over all steps; rank -1: of the run, or of its worst rank
    run INTEGER NOT NULL REFERENCES run(id),
    name TEXT NOT NULL,
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    value ANY NOT NULL,         -- integer or real, by the unit at the end of the name
    PRIMARY KEY (run, name, step, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE comparison (
    id INTEGER PRIMARY KEY,
    predicted INTEGER NOT NULL REFERENCES run(id),
    measured INTEGER NOT NULL REFERENCES run(id),
    cluster_hash TEXT,
    joined_by TEXT NOT NULL CHECK (joined_by IN ('op', 'bucket', 'step')),
    predicted_step_ps INTEGER NOT NULL,
    measured_step_ps INTEGER NOT NULL,
    error_pct REAL NOT NULL,    -- 100 * (predicted - measured) / measured
    predicted_exposed_ps INTEGER NOT NULL,
    measured_exposed_ps INTEGER NOT NULL,
    tolerance_pct REAL,         -- NULL: rows are written by who finished a run, not by who judges
    made_at INTEGER NOT NULL,
    UNIQUE (predicted, measured)
) STRICT;

-- For people: `SELECT * FROM run_summary;`  `SELECT * FROM run_span WHERE run = 3;`
CREATE VIEW run_summary AS
SELECT run.id, run.kind, run.status, plan.hash AS plan_hash, plan.bucket_cap_bytes,
       run.workload_name, run.cluster_name, run.backend, run.honesty, run.n_spans,
       (step.value + 500) / 1000 AS step_ns,
       (exposed.value + 500) / 1000 AS exposed_comm_ns
FROM run
LEFT JOIN plan ON plan.id = run.plan
LEFT JOIN metric AS step
    ON step.run = run.id AND step.name = 'step_ps' AND step.step = -1 AND step.rank = -1
LEFT JOIN metric AS exposed
    ON exposed.run = run.id AND exposed.name = 'exposed_comm_ps'
    AND exposed.step = -1 AND exposed.rank = -1;

CREATE VIEW run_span AS
SELECT run.id AS run, span.step, span.pass, span.rank, span.op, op_kind.name AS kind,
       op_kind.class, op.name, op.bucket, op.bytes, stream.name AS stream,
       (span.ready_ps + 500) / 1000 AS ready_ns,
       CASE WHEN span.issue_ps < 0 THEN -1 ELSE (span.issue_ps + 500) / 1000 END AS issue_ns,
       (span.start_ps + 500) / 1000 AS start_ns,
       CASE WHEN span.all_in_ps < 0 THEN -1 ELSE (span.all_in_ps + 500) / 1000 END AS all_in_ns,
       (span.end_ps + 500) / 1000 AS end_ns
FROM run
JOIN span ON span.id BETWEEN run.first_span AND run.last_span AND span.run = run.id
JOIN op_kind ON op_kind.id = span.kind
LEFT JOIN op ON op.plan = run.plan AND op.op = span.op
LEFT JOIN stream ON stream.plan = run.plan AND stream.stream = span.stream;

-- version 2
CREATE TABLE run_process (      -- whose process runs or stores a run
    run INTEGER PRIMARY KEY REFERENCES run(id),
    host TEXT NOT NULL,
    machine TEXT NOT NULL,      -- this boot of it and its process numbers: boot id, pid namespace
    pid INTEGER NOT NULL,
    pid_started INTEGER NOT NULL -- clock ticks after the boot (proc(5), stat, field 22)
) STRICT;

-- version 3
-- the user's (--name); NULL: made of workload, options, cluster
ALTER TABLE run ADD COLUMN name TEXT;

-- version 4
-- data, tensor, forward, ...; NULL: stored before version 4
ALTER TABLE comm ADD COLUMN purpose TEXT;
CREATE TABLE memory (           -- what the rank with the largest peak holds, from at_ps on
    run INTEGER NOT NULL REFERENCES run(id),
    change INTEGER NOT NULL,    -- in the order of time; the first ones are before anything runs
    rank INTEGER NOT NULL,
    at_ps INTEGER NOT NULL,
    category TEXT NOT NULL,     -- parameters, gradients, optimizer, buckets, gathered_units,
                                -- activations, messages, workspaces
    bytes INTEGER NOT NULL,     -- of the category, all together
    PRIMARY KEY (run, change)
) STRICT, WITHOUT ROWID;

-- version 5
ALTER TABLE run ADD COLUMN settings TEXT; -- exec: what steers the backend's library; NULL: nothing

-- version 6
-- what a model was predicted or planned with; NULL: times are recorded, or stored before version 6
ALTER TABLE run ADD COLUMN framework TEXT;
ALTER TABLE run ADD COLUMN framework_hash TEXT; -- NULL: the ideal one

-- version 7
CREATE TABLE plan_file (        -- the whole plan as its file has it (docs/formats/plan.md), gzip;
    plan INTEGER PRIMARY KEY REFERENCES plan(id), -- none: stored before version 7
    gz BLOB NOT NULL
) STRICT;

-- version 8
-- A plan's hash is of its decisions alone: one row per hash and times. Rows that were here get
-- both from their plan_file.
DROP VIEW run_summary;
CREATE TABLE plan_before AS SELECT * FROM plan;
DROP TABLE plan;
CREATE TABLE plan (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL,
    name TEXT NOT NULL,
    n_ranks INTEGER NOT NULL,
    n_stages INTEGER NOT NULL,
    n_params INTEGER NOT NULL,
    n_buckets INTEGER NOT NULL,
    n_ops INTEGER NOT NULL,
    bucket_cap_bytes INTEGER NOT NULL,
    repeat_from INTEGER NOT NULL,
    workload_hash TEXT,
    cluster_name TEXT,
    times TEXT                  -- hash of what the ops take and whose times they are; NULL: stored
                                -- before version 7, and `hash` covers times too
) STRICT;
INSERT INTO plan SELECT *, NULL FROM plan_before;
DROP TABLE plan_before;
CREATE INDEX plan_by_hash ON plan (hash);
CREATE VIEW run_summary AS
SELECT run.id, run.kind, run.status, plan.hash AS plan_hash, plan.bucket_cap_bytes,
       run.workload_name, run.cluster_name, run.backend, run.honesty, run.n_spans,
       (step.value + 500) / 1000 AS step_ns,
       (exposed.value + 500) / 1000 AS exposed_comm_ns
FROM run
LEFT JOIN plan ON plan.id = run.plan
LEFT JOIN metric AS step
    ON step.run = run.id AND step.name = 'step_ps' AND step.step = -1 AND step.rank = -1
LEFT JOIN metric AS exposed
    ON exposed.run = run.id AND exposed.name = 'exposed_comm_ps'
    AND exposed.step = -1 AND exposed.rank = -1;

-- version 9
-- between these 80 % of measured runs lie by the errors of others (docs/design/evidence.md); NULL:
-- no interval, or stored before version 9
ALTER TABLE run ADD COLUMN step_p10_ps INTEGER;
ALTER TABLE run ADD COLUMN step_p90_ps INTEGER;
ALTER TABLE run ADD COLUMN interval_of TEXT; -- the runs that it comes from

-- version 10
-- work_ps by what bounds it, in parts that sum to no more than it: the rest is given, or the
-- cluster's. NULL: stored before version 10
ALTER TABLE op ADD COLUMN bound TEXT;       -- of most of its time: compute, memory, launch, host,
                                            -- network, measured, unknown
ALTER TABLE op ADD COLUMN time_source TEXT; -- given, shape, table, roofline, scaled, cluster
ALTER TABLE op ADD COLUMN compute_ps INTEGER;
ALTER TABLE op ADD COLUMN memory_ps INTEGER;
ALTER TABLE op ADD COLUMN launch_ps INTEGER;
ALTER TABLE op ADD COLUMN host_ps INTEGER;

-- version 11
CREATE TABLE search (           -- of `lapwing tune`
    id INTEGER PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('running', 'interrupted', 'ok')),
    hash TEXT NOT NULL,         -- of `space`
    space TEXT NOT NULL,        -- all that a strategy's figures depend on, a line each
    shard INTEGER NOT NULL,     -- 1 of 1: the whole space
    n_shards INTEGER NOT NULL,
    model TEXT NOT NULL,
    cluster TEXT NOT NULL,
    framework TEXT NOT NULL,
    global_batch INTEGER NOT NULL,
    n_best INTEGER NOT NULL,
    command TEXT NOT NULL,
    version TEXT NOT NULL,      -- of lapwing
    started_at INTEGER NOT NULL,-- seconds since 1970
    ended_at INTEGER,           -- NULL: not ended, as all below
    wall_s REAL,
    n_combinations INTEGER,
    n_repeated INTEGER,
    n_invalid INTEGER,
    n_valid INTEGER,
    n_bounded_step INTEGER,
    n_bounded_memory INTEGER,
    n_simulated INTEGER,
    n_unfit INTEGER,
    least_pruned_ps INTEGER,
    within REAL,                -- factor by which predictions of alike runs differ by chance
    n_tables INTEGER,           -- of measured runs that it comes from
    same_parallelism INTEGER
) STRICT;
CREATE INDEX search_by_hash ON search (hash);
CREATE TABLE searched (         -- a strategy of a search
    search INTEGER NOT NULL REFERENCES search(id),
    combination INTEGER NOT NULL, -- its number in the space
    outcome TEXT NOT NULL CHECK (outcome IN ('simulated', 'invalid', 'no_room', 'bounded')),
    place INTEGER NOT NULL,     -- among the best: 1, 2, ...; 0 = not one of them
    front INTEGER NOT NULL,     -- in the Pareto set, least memory first; 0 = not in it
    run INTEGER,                -- run.id of its prediction; NULL: not stored as a run
    nth INTEGER NOT NULL,       -- the n-th that was simulated; -1 = it was not
    strategy TEXT NOT NULL,     -- "tp=8 dp=2"
    command TEXT NOT NULL,      -- of sim
    why TEXT NOT NULL,          -- invalid: the reason
    bound_ps INTEGER NOT NULL,  -- lower bound of the step
    step_ps INTEGER NOT NULL,
    p10_ps INTEGER NOT NULL,
    p90_ps INTEGER NOT NULL,
    interval_of TEXT NOT NULL,
    told_apart INTEGER NOT NULL,
    n_devices INTEGER NOT NULL,
    peak_memory_bytes INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,      -- of a device
    missing_bytes INTEGER NOT NULL,     -- that a device lacks
    needed_bytes INTEGER NOT NULL,      -- of the fullest rank's allocator
    needed_bound_bytes INTEGER NOT NULL,-- its lower bound
    tokens_per_s REAL,
    samples_per_s REAL,
    cost_per_trillion_tokens REAL,
    alike TEXT NOT NULL,        -- what measured runs have to share with it, a line each
    PRIMARY KEY (search, combination)
) STRICT, WITHOUT ROWID;
CREATE TABLE search_reason (    -- strategies that are not valid, by reason
    search INTEGER NOT NULL REFERENCES search(id),
    reason INTEGER NOT NULL,    -- 0, 1, ...: the most frequent first
    n INTEGER NOT NULL,
    text TEXT NOT NULL,
    example TEXT NOT NULL,
    PRIMARY KEY (search, reason)
) STRICT, WITHOUT ROWID;

-- version 12
-- Spans are packed: rows of span_block for each rank of a pass, whose spans are in span_data, once
-- for all blocks of the run with the same text. docs/formats/schema.md explains the text. The rows
-- of the table that was here are packed and it is dropped (analysis/store/store_spans.c).
DROP VIEW run_span;
ALTER TABLE span RENAME TO span_before;
CREATE TABLE span_data (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    hash TEXT NOT NULL,         -- of the text
    text TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX span_data_by_hash ON span_data (run, hash);
CREATE TABLE span_block (       -- a run's blocks ascend by (step, pass, rank, first)
    run INTEGER NOT NULL,
    first INTEGER NOT NULL,     -- number of its first span in the run, from 1 on
    n INTEGER NOT NULL,
    step INTEGER NOT NULL,
    pass INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    base_op INTEGER NOT NULL,   -- op of its first span
    base_ps INTEGER NOT NULL,   -- start of its first span
    data INTEGER NOT NULL,      -- span_data.id
    PRIMARY KEY (run, first)
) STRICT, WITHOUT ROWID;

-- One op that ran; a run's rows ascend by (step, pass, rank, op).
CREATE VIEW span AS
SELECT id, run, step, pass, rank, op, kind, stream, comm, start_ps - ready AS ready_ps,
       ifnull(start_ps - issue, -1) AS issue_ps, start_ps,
       ifnull(start_ps + all_in, -1) AS all_in_ps, start_ps + length AS end_ps
FROM (SELECT b.first + r.key AS id, b.run AS run, b.step AS step, b.pass AS pass, b.rank AS rank,
             b.base_op + sum(json_extract(r.value, '$[0]')) OVER before AS op,
             json_extract(r.value, '$[1]') AS kind, json_extract(r.value, '$[2]') AS stream,
             json_extract(r.value, '$[3]') AS comm,
             b.base_ps + sum(json_extract(r.value, '$[4]')) OVER before AS start_ps,
             json_extract(r.value, '$[5]') AS ready, json_extract(r.value, '$[6]') AS issue,
             json_extract(r.value, '$[7]') AS all_in, json_extract(r.value, '$[8]') AS length
      FROM span_block AS b JOIN span_data AS d ON d.id = b.data
      JOIN json_each(d.text) AS r
      WINDOW before AS (PARTITION BY b.run, b.step, b.rank, b.first ORDER BY r.key));

CREATE VIEW run_span AS
SELECT run.id AS run, span.step, span.pass, span.rank, span.op, op_kind.name AS kind,
       op_kind.class, op.name, op.bucket, op.bytes, stream.name AS stream,
       (span.ready_ps + 500) / 1000 AS ready_ns,
       CASE WHEN span.issue_ps < 0 THEN -1 ELSE (span.issue_ps + 500) / 1000 END AS issue_ns,
       (span.start_ps + 500) / 1000 AS start_ns,
       CASE WHEN span.all_in_ps < 0 THEN -1 ELSE (span.all_in_ps + 500) / 1000 END AS all_in_ns,
       (span.end_ps + 500) / 1000 AS end_ns
FROM run
JOIN span ON span.run = run.id
JOIN op_kind ON op_kind.id = span.kind
LEFT JOIN op ON op.plan = run.plan AND op.op = span.op
LEFT JOIN stream ON stream.plan = run.plan AND stream.stream = span.stream;

-- version 13
-- Ops that are alike but for their micro-batch are one row of op_alike; op_row has every op.
DROP VIEW run_span;
CREATE TABLE op_alike (
    plan INTEGER NOT NULL REFERENCES plan(id),
    alike INTEGER NOT NULL,     -- number of the set in its plan
    kind TEXT NOT NULL,
    class TEXT NOT NULL,
    dtype TEXT NOT NULL,
    stream INTEGER NOT NULL,
    comm INTEGER NOT NULL,
    call INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    work_ps INTEGER NOT NULL,   -- -1 = timed by the cluster
    peer INTEGER NOT NULL,
    operand INTEGER NOT NULL,   -- row of operands that replaces bytes and peer by rank; -1 = none
    module INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    name TEXT NOT NULL,
    bound TEXT,                 -- of most of its time: compute, memory, launch, host, network, ...
    time_source TEXT,           -- given, shape, table, roofline, scaled, cluster
    compute_ps INTEGER,
    memory_ps INTEGER,
    launch_ps INTEGER,
    host_ps INTEGER,
    PRIMARY KEY (plan, alike)
) STRICT, WITHOUT ROWID;
CREATE TABLE op_row (           -- numbered through all programs of the plan
    plan INTEGER NOT NULL REFERENCES plan(id),
    op INTEGER NOT NULL,
    micro_batch INTEGER NOT NULL,
    alike INTEGER NOT NULL,     -- op_alike.alike
    PRIMARY KEY (plan, op)
) STRICT, WITHOUT ROWID;

CREATE TABLE op_numbered AS
SELECT *, dense_rank() OVER (PARTITION BY plan ORDER BY kind, class, dtype, stream, comm, call,
                             bytes, work_ps, peer, operand, module, stage, bucket, name, bound,
                             time_source, compute_ps, memory_ps, launch_ps, host_ps) AS alike
FROM op;
INSERT INTO op_alike
SELECT DISTINCT plan, alike, kind, class, dtype, stream, comm, call, bytes, work_ps, peer, operand,
       module, stage, bucket, name, bound, time_source, compute_ps, memory_ps, launch_ps, host_ps
FROM op_numbered;
INSERT INTO op_row SELECT plan, op, micro_batch, alike FROM op_numbered ORDER BY plan, op;
DROP TABLE op_numbered;
DROP TABLE op;

CREATE VIEW op AS
SELECT r.plan, r.op, a.kind, a.class, a.dtype, a.stream, a.comm, a.call, a.bytes, a.work_ps, a.peer,
       a.operand, a.module, a.stage, r.micro_batch, a.bucket, a.name, a.bound, a.time_source,
       a.compute_ps, a.memory_ps, a.launch_ps, a.host_ps
FROM op_row AS r JOIN op_alike AS a ON a.plan = r.plan AND a.alike = r.alike;

-- Its ops are joined by their tables: of a view, LEFT JOIN would make all rows first.
CREATE VIEW run_span AS
SELECT run.id AS run, span.step, span.pass, span.rank, span.op, op_kind.name AS kind,
       op_kind.class, op_alike.name, op_alike.bucket, op_alike.bytes, stream.name AS stream,
       (span.ready_ps + 500) / 1000 AS ready_ns,
       CASE WHEN span.issue_ps < 0 THEN -1 ELSE (span.issue_ps + 500) / 1000 END AS issue_ns,
       (span.start_ps + 500) / 1000 AS start_ns,
       CASE WHEN span.all_in_ps < 0 THEN -1 ELSE (span.all_in_ps + 500) / 1000 END AS all_in_ns,
       (span.end_ps + 500) / 1000 AS end_ns
FROM run
JOIN span ON span.run = run.id
JOIN op_kind ON op_kind.id = span.kind
LEFT JOIN op_row ON op_row.plan = run.plan AND op_row.op = span.op
LEFT JOIN op_alike ON op_alike.plan = op_row.plan AND op_alike.alike = op_row.alike
LEFT JOIN stream ON stream.plan = run.plan AND stream.stream = span.stream;

-- version 14
-- p90 of the samples of a search with noise, which ranks strategies by it; -1 = none were drawn.
ALTER TABLE searched ADD COLUMN samples_p90_ps INTEGER NOT NULL DEFAULT -1;
-- Values of --bucket-cap that make its plan too: from the first to below the second; 0 = not known.
ALTER TABLE searched ADD COLUMN least_cap_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE searched ADD COLUMN next_cap_bytes INTEGER NOT NULL DEFAULT 0;

-- version 15
-- Rows of texts that are alike are one row of span_alike, which the texts of the run name by its
-- number. docs/formats/schema.md explains both. Texts that were here have no such numbers.
CREATE TABLE span_alike (
    run INTEGER NOT NULL,
    alike INTEGER NOT NULL,     -- number of the set in its run
    op INTEGER NOT NULL,        -- less the op of the span before
    kind INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    comm INTEGER NOT NULL,
    start INTEGER NOT NULL,     -- less the start of the span before
    ready INTEGER,              -- how long before its start; NULL: at the held time
    issue INTEGER,              -- how long before its start, or the held time; NULL: unknown
    all_in INTEGER,             -- how long after its start; NULL: unknown
    length INTEGER NOT NULL,
    held INTEGER,               -- the held time less what it was before; NULL: where ready is not
    PRIMARY KEY (run, alike)
) STRICT, WITHOUT ROWID;

DROP VIEW span;
CREATE VIEW span AS
SELECT id, run, step, pass, rank, op, kind, stream, comm,
       ifnull(start_ps - ready, held_ps) AS ready_ps,
       ifnull(iif(ready IS NULL, held_ps, start_ps) - issue, -1) AS issue_ps, start_ps,
       ifnull(start_ps + all_in, -1) AS all_in_ps, start_ps + length AS end_ps
FROM (SELECT b.first + r.key AS id, b.run AS run, b.step AS step, b.pass AS pass, b.rank AS rank,
             b.base_op + sum(ifnull(a.op, json_extract(r.value, '$[0]'))) OVER before AS op,
             ifnull(a.kind, json_extract(r.value, '$[1]')) AS kind,
             ifnull(a.stream, json_extract(r.value, '$[2]')) AS stream,
             ifnull(a.comm, json_extract(r.value, '$[3]')) AS comm,
             b.base_ps + sum(ifnull(a.start, json_extract(r.value, '$[4]'))) OVER before
                 AS start_ps,
             iif(a.op IS NULL, json_extract(r.value, '$[5]'), a.ready) AS ready,
             iif(a.op IS NULL, json_extract(r.value, '$[6]'), a.issue) AS issue,
             iif(a.op IS NULL, json_extract(r.value, '$[7]'), a.all_in) AS all_in,
             ifnull(a.length, json_extract(r.value, '$[8]')) AS length,
             b.base_ps + sum(iif(a.op IS NULL, ifnull(json_extract(r.value, '$[9]'), 0),
                                 ifnull(a.held, 0))) OVER before AS held_ps
      FROM span_block AS b JOIN span_data AS d ON d.id = b.data
      JOIN json_each(d.text) AS r
      LEFT JOIN span_alike AS a ON a.run = b.run AND a.alike = r.value
      WINDOW before AS (PARTITION BY b.run, b.step, b.rank, b.first ORDER BY r.key));

-- version 16
-- The ops of a plan, and what a rank holds over time, are pieces of a list that has once what
-- repeats (analysis/store/pieces.c). Rows of the tables that were here are packed and they are
-- dropped (analysis/store/store_ops.c, analysis/store/store_memory.c).
DROP VIEW run_span;
DROP VIEW op;
ALTER TABLE op_row RENAME TO op_row_before;
ALTER TABLE memory RENAME TO memory_before;
CREATE TABLE op_order (         -- the list: ops of pieces, one after the other
    plan INTEGER NOT NULL REFERENCES plan(id),
    place INTEGER NOT NULL,
    alike INTEGER NOT NULL,     -- op_alike.alike
    PRIMARY KEY (plan, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE op_piece (         -- op + i is alike to what op_order has at place + i, for i < n
    plan INTEGER NOT NULL REFERENCES plan(id),
    op INTEGER NOT NULL,        -- the first; numbered through all programs of the plan
    n INTEGER NOT NULL,
    micro_batch INTEGER NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (plan, op)
) STRICT, WITHOUT ROWID;

CREATE VIEW op_row AS
SELECT p.plan AS plan, p.op + o.place - p.place AS op, p.micro_batch AS micro_batch,
       o.alike AS alike
FROM op_piece AS p CROSS JOIN op_order AS o
WHERE o.plan = p.plan AND o.place BETWEEN p.place AND p.place + p.n - 1;

CREATE VIEW op AS
SELECT p.plan AS plan, p.op + o.place - p.place AS op, a.kind, a.class, a.dtype, a.stream, a.comm,
       a.call, a.bytes, a.work_ps, a.peer, a.operand, a.module, a.stage, p.micro_batch, a.bucket,
       a.name, a.bound, a.time_source, a.compute_ps, a.memory_ps, a.launch_ps, a.host_ps
FROM op_piece AS p CROSS JOIN op_order AS o CROSS JOIN op_alike AS a
WHERE o.plan = p.plan AND o.place BETWEEN p.place AND p.place + p.n - 1
  AND a.plan = o.plan AND a.alike = o.alike;

-- The op of a span is in the last piece that does not begin after it.
CREATE VIEW run_span AS
SELECT run.id AS run, span.step, span.pass, span.rank, span.op, op_kind.name AS kind,
       op_kind.class, op_alike.name, op_alike.bucket, op_alike.bytes, stream.name AS stream,
       (span.ready_ps + 500) / 1000 AS ready_ns,
       CASE WHEN span.issue_ps < 0 THEN -1 ELSE (span.issue_ps + 500) / 1000 END AS issue_ns,
       (span.start_ps + 500) / 1000 AS start_ns,
       CASE WHEN span.all_in_ps < 0 THEN -1 ELSE (span.all_in_ps + 500) / 1000 END AS all_in_ns,
       (span.end_ps + 500) / 1000 AS end_ns
FROM run
JOIN span ON span.run = run.id
JOIN op_kind ON op_kind.id = span.kind
LEFT JOIN op_piece ON op_piece.plan = run.plan
     AND op_piece.op = (SELECT max(op) FROM op_piece AS p WHERE p.plan = run.plan
                        AND p.op <= span.op)
LEFT JOIN op_order ON op_order.plan = op_piece.plan AND span.op < op_piece.op + op_piece.n
     AND op_order.place = op_piece.place + span.op - op_piece.op
LEFT JOIN op_alike ON op_alike.plan = op_order.plan AND op_alike.alike = op_order.alike
LEFT JOIN stream ON stream.plan = run.plan AND stream.stream = span.stream;

CREATE TABLE memory_order (     -- the list: changes of pieces, one after the other
    run INTEGER NOT NULL,
    place INTEGER NOT NULL,
    wait_ps INTEGER NOT NULL,   -- since the change before
    category TEXT NOT NULL,     -- parameters, gradients, optimizer, buckets, gathered_units,
                                -- activations, messages, workspaces
    more_bytes INTEGER NOT NULL,-- than the category had before
    PRIMARY KEY (run, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE memory_piece (     -- change + i is what memory_order has at place + i, for i < n
    run INTEGER NOT NULL,
    change INTEGER NOT NULL,    -- the first; in the order of time, from 0 on
    n INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (run, change)
) STRICT, WITHOUT ROWID;

-- What the rank with the largest peak holds of a category, all together, from at_ps on.
CREATE VIEW memory AS
SELECT run, change, rank, sum(wait_ps) OVER (PARTITION BY run ORDER BY change) AS at_ps, category,
       sum(more_bytes) OVER (PARTITION BY run, category ORDER BY change) AS bytes
FROM (SELECT p.run AS run, p.change + o.place - p.place AS change, p.rank AS rank,
             o.wait_ps AS wait_ps, o.category AS category, o.more_bytes AS more_bytes
      FROM memory_piece AS p CROSS JOIN memory_order AS o
      WHERE o.run = p.run AND o.place BETWEEN p.place AND p.place + p.n - 1);

-- version 17
CREATE TABLE cluster_file (     -- the cluster of runs as a cluster file has it, gzip: with
    hash TEXT PRIMARY KEY,      -- --node-gbps, --device-spread and --as-recorded, without
    gz BLOB NOT NULL            -- --interference, which run.cluster_hash tells
) STRICT, WITHOUT ROWID;
ALTER TABLE run ADD COLUMN cluster_file TEXT REFERENCES cluster_file(hash); -- NULL: of a replay, or
                                                                   -- stored before version 17
