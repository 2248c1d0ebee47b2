SELECT id, uid, queue, name, payload, attempts, dispatched_at, available_at, reserved_at
FROM jobs WHERE queue = :queue
ORDER BY available_at, seq;
