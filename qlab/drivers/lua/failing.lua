-- failing: read the failures that wait for their rows in failed_jobs.
-- KEYS: the queue's keys, as the driver maps them
-- returns serial number, uid, token, name, payload, attempts, error, traceback, dispatched_at, failed_at of each
local entries = {}
for i, packed in ipairs(redis.call('HVALS', FAILING)) do entries[i] = cmsgpack.unpack(packed) end
return entries
