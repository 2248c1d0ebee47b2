INSERT INTO failed_jobs (uid, queue, name, payload, attempts, error, traceback, dispatched_at, failed_at)
VALUES (:uid, :queue, :name, :payload, :attempts, :error, :traceback, :dispatched_at, :failed_at)
ON CONFLICT (queue, uid) DO NOTHING;
