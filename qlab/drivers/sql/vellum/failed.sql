SELECT id, kind, payload, attempts, error, traceback, created_at, finished_at
FROM jobs WHERE state = 'failed' AND id > :after
ORDER BY id LIMIT :limit;
