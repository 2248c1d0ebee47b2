CREATE TABLE IF NOT EXISTS jobs_marks (   -- made by the first mark, so that older files need no change
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,              -- in microseconds
    PRIMARY KEY (queue, kind, name)
) STRICT;

INSERT INTO jobs_marks (queue, kind, name, value) VALUES (:queue, :kind, :name, :value)
ON CONFLICT (queue, kind, name) DO UPDATE SET value = max(value, excluded.value);
