-- mark: keep a value, unless a larger one is there.
-- KEYS: the queue's keys, as the driver maps them
-- ARGV: the field, the value
-- returns 1 where it was kept
local known = tonumber(redis.call('HGET', MARKS, ARGV[1]))
if known and known >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', MARKS, ARGV[1], ARGV[2])
return 1
