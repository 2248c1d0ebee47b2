SELECT id FROM jobs WHERE state = 'failed' AND finished_at <= :before
ORDER BY id;
