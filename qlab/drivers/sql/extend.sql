UPDATE jobs SET available_at = :available_at WHERE id = :id AND token = :token
RETURNING id;
