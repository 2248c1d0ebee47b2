SELECT id, uid FROM failed_jobs WHERE queue = :queue AND failed_at <= :before
ORDER BY id;
