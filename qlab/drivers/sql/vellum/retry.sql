UPDATE jobs SET
    state = 'queued', attempts = 0, payload = coalesce(:payload, payload), run_after = :now, finished_at = NULL,
    error = '', traceback = '', done = 0, total = 0
WHERE id = :id AND state = 'failed'
RETURNING id, kind, payload, attempts, created_at, run_after, state;
