-- reserve: take the jobs that have been claimable longest, also those whose reservation has run out.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: now, deadline, token, limit
-- returns 0 (nothing is left to look at), then the jobs
local now, deadline, limit = ARGV[1], ARGV[2], tonumber(ARGV[4])
local reserved = {0}
while #reserved <= limit do
  local due = redis.call('ZRANGEBYSCORE', AVAILABLE, '-inf', now, 'LIMIT', 0, limit + 1 - #reserved)
  if #due == 0 then break end
  for _, member in ipairs(due) do
    local row = load(id_at(member))
    if row then
      row.attempts = row.attempts + 1
      row.ran_out = row.reserved_at and true
      row.claimable_since = row.available_at
      row.reserved_at, row.available_at, row.token = tonumber(now), tonumber(deadline), ARGV[3] .. '-' .. row.id
      redis.call('ZADD', AVAILABLE, deadline, member)
      redis.call('ZADD', RESERVED, deadline, member)
      save(row)
      table.insert(reserved, described(row))
    else
      redis.call('ZREM', AVAILABLE, member)   -- an id without a job: nobody can run it
    end
  end
end
if #reserved == 1 then redis.call('UNLINK', WAKE) end   -- nothing is due: the tokens are of jobs that are gone
return reserved
