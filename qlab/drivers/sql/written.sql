INSERT INTO failures_written (token) VALUES (:token)
ON CONFLICT (token) DO NOTHING
RETURNING token;

DELETE FROM failures_written WHERE token = :token;

SELECT token FROM failures_written;
