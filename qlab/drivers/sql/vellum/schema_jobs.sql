CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0,
    run_after INTEGER NOT NULL,          -- every time in microseconds
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    error TEXT NOT NULL DEFAULT '',
    traceback TEXT NOT NULL DEFAULT '',
    done INTEGER NOT NULL DEFAULT 0,     -- how far the job has come
    total INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX jobs_next ON jobs (state, run_after, id);
