UPDATE jobs SET state = 'failed', attempts = :attempts, error = :error, traceback = :traceback, finished_at = :now
WHERE id = :id AND state = 'running'
RETURNING id;
