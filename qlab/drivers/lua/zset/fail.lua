-- fail, step 1: move a job with its error to FAILING; from here on it counts as failed.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: id, token, now, attempts, error, traceback
-- returns 1, or 0 where the reservation was superseded
local row = held(ARGV[1], ARGV[2])
if not row then return 0 end
redis.call('ZREM', AVAILABLE, place(row))
redis.call('ZREM', RESERVED, place(row))
stage(row, ARGV[3], ARGV[4], ARGV[5], ARGV[6])
return 1
