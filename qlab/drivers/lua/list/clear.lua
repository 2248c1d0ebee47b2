-- clear: delete every job that is waiting or reserved; the counters and what is being failed stay.
-- KEYS: the queue's keys, as redis_list.py maps them
-- returns how many jobs there were
local cleared = redis.call('HLEN', ROWS)
redis.call('UNLINK', ROWS, BODIES, UIDS, READY, DELAYED, RESERVED, RUN_OUT, WAKE)
return cleared
