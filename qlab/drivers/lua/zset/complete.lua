-- complete: delete a job that is done.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: id, token
-- returns 1, or 0 where the reservation was superseded
local row = held(ARGV[1], ARGV[2])
if not row then return 0 end
local member = place(row)
redis.call('ZREM', AVAILABLE, member)
redis.call('ZREM', RESERVED, member)
forget(row)
return 1
