-- release: give a job back, at the end of the list or set aside until it is due.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: id, token, now, available_at
-- returns 1, or 0 where the reservation was superseded
local row = held(ARGV[1], ARGV[2])
if not row then return 0 end
redis.call('ZREM', RESERVED, place(row))
redis.call('ZREM', RUN_OUT, place(row))
row.available_at, row.seq, row.reserved_at, row.token = tonumber(ARGV[4]), next_seq(), false, false
row.entry = row.entry + 1
if row.available_at <= tonumber(ARGV[3]) then
  redis.call('RPUSH', READY, item(row))
  awaken(1)
else
  redis.call('ZADD', DELAYED, ARGV[4], place(row))
end
save(row)
return 1
