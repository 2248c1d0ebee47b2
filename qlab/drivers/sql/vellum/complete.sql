UPDATE jobs SET state = 'done', finished_at = :now
WHERE id = :id AND state = 'running'
RETURNING id;
