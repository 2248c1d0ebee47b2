-- counts: how many jobs are ready, delayed and reserved.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: now
-- returns ready, delayed, reserved
local ready = redis.call('ZCOUNT', AVAILABLE, '-inf', ARGV[1])
local reserved = redis.call('ZCOUNT', RESERVED, '(' .. ARGV[1], '+inf')
return {ready, redis.call('ZCARD', AVAILABLE) - ready - reserved, reserved}
