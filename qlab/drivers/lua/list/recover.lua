-- recover: append reserved jobs to the list, at most 500 a call; RUN_OUT holds those that were appended when they ran out.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: now, and the last deadline that counts: now, or +inf for every reservation
-- returns how many entries it looked at (fewer than 500 means that none is left), then the jobs
local found = {}
for _, set in ipairs({RUN_OUT, RESERVED}) do
  local page = redis.call('ZRANGEBYSCORE', set, '-inf', ARGV[2], 'WITHSCORES', 'LIMIT', 0, 500)
  for i = 1, #page, 2 do table.insert(found, {set = set, member = page[i], at = tonumber(page[i + 1])}) end
end
table.sort(found, function(a, b) return a.at < b.at or (a.at == b.at and a.member < b.member) end)
local recovered = {math.min(#found, 500)}
for i = 1, recovered[1] do
  local row = load(id_at(found[i].member))
  redis.call('ZREM', found[i].set, found[i].member)
  if row then
    row.available_at, row.seq, row.reserved_at, row.token = tonumber(ARGV[1]), next_seq(), false, false
    row.entry = row.entry + 1
    redis.call('RPUSH', READY, item(row))
    save(row)
    table.insert(recovered, described(row))
  end
end
awaken(#recovered - 1)
return recovered
