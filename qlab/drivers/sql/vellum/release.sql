UPDATE jobs SET state = 'queued', run_after = :run_after
WHERE id = :id AND state = 'running'
RETURNING id;
