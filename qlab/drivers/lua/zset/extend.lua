-- extend: make a reservation run out at another moment.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: id, token, available_at
-- returns 1, or 0 where the reservation was superseded
local row = held(ARGV[1], ARGV[2])
if not row then return 0 end
row.available_at = tonumber(ARGV[3])
redis.call('ZADD', AVAILABLE, ARGV[3], place(row))
redis.call('ZADD', RESERVED, ARGV[3], place(row))
save(row)
return 1
