UPDATE jobs SET done = :done, total = :total
WHERE id = :id AND state = 'running';
