CREATE TABLE failed_jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    payload TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT NOT NULL,
    traceback TEXT NOT NULL,
    dispatched_at INTEGER NOT NULL,      -- every time in microseconds
    failed_at INTEGER NOT NULL,
    UNIQUE (queue, uid)
) STRICT;

CREATE INDEX failed_jobs_queue ON failed_jobs (queue, id);
