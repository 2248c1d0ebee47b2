DELETE FROM failed_jobs WHERE queue = :queue AND id = :id
RETURNING id;
