-- release: give a job back, behind those that are claimable by then.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: id, token, now, available_at
-- returns 1, or 0 where the reservation was superseded
local row = held(ARGV[1], ARGV[2])
if not row then return 0 end
redis.call('ZREM', AVAILABLE, place(row))
redis.call('ZREM', RESERVED, place(row))
row.available_at, row.seq, row.reserved_at, row.token = tonumber(ARGV[4]), next_seq(), false, false
redis.call('ZADD', AVAILABLE, ARGV[4], place(row))
save(row)
if row.available_at <= tonumber(ARGV[3]) then awaken(1) end
return 1
