-- extend: make a reservation run out at another moment; an item appended meanwhile is skipped later.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: id, token, available_at
-- returns 1, or 0 where the reservation was superseded
local row = held(ARGV[1], ARGV[2])
if not row then return 0 end
row.available_at, row.entry = tonumber(ARGV[3]), row.entry + 1
redis.call('ZREM', RUN_OUT, place(row))
redis.call('ZADD', RESERVED, ARGV[3], place(row))
save(row)
return 1
