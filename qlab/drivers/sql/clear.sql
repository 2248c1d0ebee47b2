DELETE FROM jobs WHERE queue = :queue
RETURNING id;
