-- recover: make reserved jobs ready again, at most 500 a call.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: now, and the last deadline that counts: now, or +inf for every reservation
-- returns how many entries it looked at (fewer than 500 means that none is left), then the jobs
local found = redis.call('ZRANGEBYSCORE', RESERVED, '-inf', ARGV[2], 'LIMIT', 0, 500)
local recovered = {#found}
for _, member in ipairs(found) do
  local row = load(id_at(member))
  redis.call('ZREM', RESERVED, member)
  redis.call('ZREM', AVAILABLE, member)
  if row then
    row.available_at, row.seq, row.reserved_at, row.token = tonumber(ARGV[1]), next_seq(), false, false
    redis.call('ZADD', AVAILABLE, ARGV[1], place(row))
    save(row)
    table.insert(recovered, described(row))
  end
end
awaken(#recovered - 1)
return recovered
