UPDATE jobs SET
    available_at = :now,
    seq = (SELECT seq FROM jobs_seq) + stale.place,
    reserved_at = NULL,
    token = NULL
FROM (
    SELECT id, row_number() OVER (ORDER BY available_at, seq) AS place FROM jobs
    WHERE queue = :queue AND available_at <= :until AND reserved_at IS NOT NULL
) AS stale
WHERE jobs.id = stale.id
RETURNING seq, id, uid, queue, name, payload, attempts, dispatched_at, available_at, reserved_at;

UPDATE jobs_seq SET seq = seq + :count;
