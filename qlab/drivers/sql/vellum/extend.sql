SELECT id FROM jobs WHERE id = :id AND state = 'running';
