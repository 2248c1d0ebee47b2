UPDATE jobs SET
    attempts = attempts + 1,
    ran_out = reserved_at IS NOT NULL,
    claimable_since = available_at,
    reserved_at = :now,
    available_at = :deadline,
    token = :token || '-' || id
WHERE id = (
    SELECT id FROM jobs
    WHERE queue = :queue AND available_at <= :now
    ORDER BY available_at, seq LIMIT 1
)
RETURNING claimable_since, ran_out, id, uid, name, payload, attempts, dispatched_at;
