-- reserve: take the jobs that have been claimable longest, also those whose reservation has run out.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: now, deadline, token, limit
-- returns 1 where the call stopped at ids that nobody can run and more may be left (else 0), then the jobs
local now, deadline, limit = ARGV[1], ARGV[2], tonumber(ARGV[4])
local reserved, skipped = {0}, 0
while #reserved <= limit and skipped < 100 do
  local due = redis.call('ZRANGEBYSCORE', AVAILABLE, '-inf', now, 'LIMIT', 0, limit + 1 - #reserved)
  if #due == 0 then break end
  for _, member in ipairs(due) do
    local row = load(id_at(member))
    local payload = row and body(row) or ''
    if payload ~= '' then
      row.attempts = row.attempts + 1
      row.ran_out = row.reserved_at and true
      row.claimable_since = row.available_at
      row.reserved_at, row.available_at, row.token = tonumber(now), tonumber(deadline), ARGV[3] .. '-' .. row.id
      redis.call('ZADD', AVAILABLE, deadline, member)
      redis.call('ZADD', RESERVED, deadline, member)
      save(row)
      table.insert(reserved, described(row, payload))
    else
      if row then fail_without_payload(row, now, ARGV[3] .. '-' .. row.id) end
      redis.call('ZREM', AVAILABLE, member)   -- a job that lost its payload, or an id without a job: nobody can run it
      redis.call('ZREM', RESERVED, member)
      skipped = skipped + 1
    end
  end
end
if skipped >= 100 then
  reserved[1] = 1
elseif #reserved == 1 then
  redis.call('UNLINK', WAKE)   -- nothing is due: the tokens are of jobs that are gone
end
return reserved
