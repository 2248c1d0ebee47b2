SELECT
    (SELECT count(*) FROM jobs WHERE queue = :queue AND available_at <= :now),
    (SELECT count(*) FROM jobs WHERE queue = :queue AND available_at > :now AND reserved_at IS NULL),
    (SELECT count(*) FROM jobs WHERE queue = :queue AND available_at > :now AND reserved_at IS NOT NULL),
    (SELECT count(*) FROM failed_jobs WHERE queue = :queue);
