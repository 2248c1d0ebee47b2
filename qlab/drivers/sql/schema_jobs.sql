CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    payload TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    dispatched_at INTEGER NOT NULL,      -- every time in microseconds
    available_at INTEGER NOT NULL,       -- may be reserved from
    seq INTEGER NOT NULL,                -- new at each dispatch, release and recover
    reserved_at INTEGER,
    token TEXT,                          -- the fence of the present reservation
    claimable_since INTEGER,             -- where the present reservation's wait began
    ran_out INTEGER NOT NULL DEFAULT 0,  -- whether the reservation before it ran out
    UNIQUE (queue, uid)
) STRICT;

CREATE INDEX jobs_claimable ON jobs (queue, available_at, seq);
