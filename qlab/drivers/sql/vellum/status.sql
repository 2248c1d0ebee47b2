SELECT id, state, attempts, done, total, error
FROM jobs WHERE kind = :kind AND json_extract(payload, '$.library') = :library
ORDER BY id DESC LIMIT 1;
