DELETE FROM jobs WHERE id = :id AND state = 'failed'
RETURNING id;
