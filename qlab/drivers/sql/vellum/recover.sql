UPDATE jobs SET state = 'queued' WHERE state = 'running'
RETURNING id, kind, payload, attempts, created_at, run_after, state;
