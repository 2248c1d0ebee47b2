-- reserve: append what has fallen due to the list, delayed jobs and run-out reservations alike, at most 100; then pop.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: now, deadline, token, limit
-- returns 1 where the call stopped at 100 and more may be left (else 0), then the jobs
local now, deadline, limit = ARGV[1], ARGV[2], tonumber(ARGV[4])
local due = {}
for _, set in ipairs({DELAYED, RESERVED}) do
  local found = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 100)
  for i = 1, #found, 2 do table.insert(due, {set = set, member = found[i], at = tonumber(found[i + 1])}) end
end
table.sort(due, function(a, b) return a.at < b.at or (a.at == b.at and a.member < b.member) end)
local moved = math.min(#due, 100)
for i = 1, moved do
  local job = due[i]
  local row = load(id_at(job.member))
  redis.call('ZREM', job.set, job.member)
  if row then
    row.entry = row.entry + 1
    if job.set == RESERVED then redis.call('ZADD', RUN_OUT, text(job.at), job.member) end
    redis.call('RPUSH', READY, item(row))
    save(row)
  end
end

local reserved, skipped = {0}, 0
while #reserved <= limit and skipped < 100 do
  local popped = redis.call('LPOP', READY)
  if not popped then break end
  local row = load(string.match(popped, '^[^:]*'))
  local there = row and item(row) == popped   -- else the job was completed, extended or recovered since it was appended
  local member, payload = there and place(row), there and body(row) or ''
  if there then redis.call('ZREM', RUN_OUT, member) end
  if payload ~= '' then
    row.attempts = row.attempts + 1
    row.ran_out = row.reserved_at and true
    row.claimable_since = math.min(row.available_at, tonumber(now))
    row.reserved_at, row.available_at, row.token = tonumber(now), tonumber(deadline), ARGV[3] .. '-' .. row.id
    row.entry = row.entry + 1
    redis.call('ZADD', RESERVED, deadline, member)
    save(row)
    table.insert(reserved, described(row, payload))
  else
    if there then fail_without_payload(row, now, ARGV[3] .. '-' .. row.id) end
    skipped = skipped + 1
  end
end
if skipped == 100 or moved == 100 then
  reserved[1] = 1
elseif #reserved == 1 then
  redis.call('UNLINK', WAKE)   -- nothing is due: the tokens are of jobs that are gone
end
return reserved
