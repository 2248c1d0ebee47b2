SELECT min(run_after) FROM jobs WHERE state = 'queued';
