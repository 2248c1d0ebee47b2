-- counts: how many jobs are ready, delayed and reserved; ready is what is neither, never the list's length.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: now
-- returns ready, delayed, reserved
local delayed = redis.call('ZCOUNT', DELAYED, '(' .. ARGV[1], '+inf')
local reserved = redis.call('ZCOUNT', RESERVED, '(' .. ARGV[1], '+inf')
return {redis.call('HLEN', ROWS) - delayed - reserved, delayed, reserved}
