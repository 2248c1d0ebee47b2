SELECT id, uid, queue, name, payload, attempts, error, traceback, dispatched_at, failed_at
FROM failed_jobs WHERE queue = :queue AND id > :after
ORDER BY id LIMIT :limit;
