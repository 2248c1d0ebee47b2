INSERT INTO failed_jobs (uid, queue, name, payload, attempts, error, traceback, dispatched_at, failed_at)
SELECT uid, queue, name, payload, :attempts, :error, :traceback, dispatched_at, :now
FROM jobs WHERE id = :id AND token = :token
ON CONFLICT (queue, uid) DO NOTHING;

DELETE FROM jobs WHERE id = :id AND token = :token
RETURNING id;
