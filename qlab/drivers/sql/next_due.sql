SELECT min(available_at) FROM jobs WHERE queue = :queue;
