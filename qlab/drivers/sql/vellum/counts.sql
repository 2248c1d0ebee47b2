SELECT
    (SELECT count(*) FROM jobs WHERE state = 'queued' AND run_after <= :now),
    (SELECT count(*) FROM jobs WHERE state = 'queued' AND run_after > :now),
    (SELECT count(*) FROM jobs WHERE state = 'running'),
    (SELECT count(*) FROM jobs WHERE state = 'failed');
