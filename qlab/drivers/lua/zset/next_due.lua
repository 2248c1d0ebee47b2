-- next_due: the earliest moment at which a job may be reserved.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: now
-- returns the moment as text, or nil
return redis.call('ZRANGE', AVAILABLE, 0, 0, 'WITHSCORES')[2]
