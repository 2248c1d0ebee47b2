-- fail, step 3: drop failures whose rows are written, where they are still the same failure.
-- KEYS: the queue's keys, as the driver maps them
-- ARGV: uid, token of each
-- returns how many were dropped
local dropped = 0
for i = 1, #ARGV, 2 do
  local packed = redis.call('HGET', FAILING, ARGV[i])
  if packed and cmsgpack.unpack(packed)[3] == ARGV[i + 1] then
    dropped = dropped + redis.call('HDEL', FAILING, ARGV[i])
  end
end
return dropped
