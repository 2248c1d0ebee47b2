-- mend: put jobs that stand in no set back where their rows say, looking at 500 rows a call; nobody looks while as many are
-- available as there are jobs, unless told to: a lost reservation that never runs out is found in no other way.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: the cursor, 0 at first; 1 to look in any case
-- returns the next cursor (0 at the end), then the ids that were put back
local whole = ARGV[2] == '0' and redis.call('ZCARD', AVAILABLE) >= redis.call('HLEN', ROWS)
if ARGV[1] == '0' and whole then return {'0'} end

local page = redis.call('HSCAN', ROWS, ARGV[1], 'COUNT', 500)
local mended = {page[1]}
for i = 1, #page[2], 2 do
  local row = load(page[2][i])
  local changed = redis.call('ZADD', AVAILABLE, 'NX', text(row.available_at), place(row))
  if row.token then changed = changed + redis.call('ZADD', RESERVED, 'NX', text(row.available_at), place(row)) end
  if changed > 0 then table.insert(mended, row.id) end
end
return mended
