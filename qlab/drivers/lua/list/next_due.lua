-- next_due: the earliest moment at which a job may be reserved: now, while one is in the list.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: now
-- returns the moment as text, or nil
local aside = redis.call('ZCARD', DELAYED) + redis.call('ZCARD', RESERVED)
if redis.call('LLEN', READY) > 0 and redis.call('HLEN', ROWS) > aside then return ARGV[1] end
local delayed = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')[2]
local reserved = redis.call('ZRANGE', RESERVED, 0, 0, 'WITHSCORES')[2]
if delayed and reserved then return tonumber(delayed) < tonumber(reserved) and delayed or reserved end
return delayed or reserved
