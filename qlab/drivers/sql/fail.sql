INSERT INTO failed_jobs (uid, queue, name, payload, attempts, error, traceback, dispatched_at, failed_at)
SELECT uid, queue, name, payload, :attempts, :error, :traceback, dispatched_at, :now
FROM jobs WHERE id = :id AND token = :token AND NOT EXISTS (   -- a conflict would give an id away
    SELECT 1 FROM failed_jobs WHERE queue = jobs.queue AND uid = jobs.uid
);

DELETE FROM jobs WHERE id = :id AND token = :token
RETURNING id;
