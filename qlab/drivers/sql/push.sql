UPDATE jobs_seq SET seq = seq + :count RETURNING seq;

INSERT INTO jobs (uid, queue, name, payload, dispatched_at, available_at, seq)
SELECT :uid, :queue, :name, :payload, :now, :available_at, :seq
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE queue = :queue AND uid = :uid)   -- a conflict would give an id away
RETURNING id;

SELECT id, uid, queue, name, payload, attempts, dispatched_at, available_at, reserved_at
FROM jobs WHERE queue = :queue AND uid = :uid;

SELECT 1 FROM failed_jobs WHERE queue = :queue AND uid = :uid;

INSERT INTO jobs (uid, queue, name, payload, dispatched_at, available_at, seq)
VALUES (?, ?, ?, ?, ?, ?, ?);
