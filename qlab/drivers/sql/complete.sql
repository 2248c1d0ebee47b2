DELETE FROM jobs WHERE id = :id AND token = :token
RETURNING id;
