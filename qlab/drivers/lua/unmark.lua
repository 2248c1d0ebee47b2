-- unmark: drop a value.
-- KEYS: the queue's keys, as the driver maps them
-- ARGV: the field
-- returns how many were dropped
return redis.call('HDEL', MARKS, ARGV[1])
