SELECT id, kind, payload, attempts, created_at, run_after, state
FROM jobs WHERE state IN ('queued', 'running')
ORDER BY run_after, id;
