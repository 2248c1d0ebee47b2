UPDATE jobs SET
    available_at = :available_at,
    seq = (SELECT seq + 1 FROM jobs_seq),
    reserved_at = NULL,
    token = NULL
WHERE id = :id AND token = :token
RETURNING seq;

UPDATE jobs_seq SET seq = seq + 1;
