INSERT INTO jobs (kind, payload, run_after, created_at) VALUES (:kind, :payload, :run_after, :now)
RETURNING id;
