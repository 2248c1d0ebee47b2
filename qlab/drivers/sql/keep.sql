INSERT INTO failed_jobs (uid, queue, name, payload, attempts, error, traceback, dispatched_at, failed_at)
SELECT :uid, :queue, :name, :payload, :attempts, :error, :traceback, :dispatched_at, :failed_at
WHERE NOT EXISTS (   -- a conflict would give an id away
    SELECT 1 FROM failed_jobs WHERE queue = :queue AND uid = :uid
);
