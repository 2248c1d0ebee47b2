-- failing: read the failures that wait for their rows in failed_jobs.
-- KEYS: the queue's keys, as the driver maps them
-- returns uid, token, name, payload, attempts, error, traceback, dispatched_at, failed_at of each
local entries = {}
local all = redis.call('HGETALL', FAILING)
for i = 1, #all, 2 do
  local entry = cmsgpack.unpack(all[i + 1])
  table.insert(entry, 1, all[i])
  table.insert(entries, entry)
end
return entries
