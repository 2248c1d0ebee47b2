DELETE FROM jobs WHERE state IN ('queued', 'running')
RETURNING id;
