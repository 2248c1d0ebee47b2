-- mend: put jobs that stand in no set back where their rows say, looking at 500 rows a call; nobody looks while as many stand
-- in the sets as there are jobs (stale items of the list can hide one, until they are skipped).
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: the cursor, 0 at first
-- returns the next cursor (0 at the end), then the ids that were put back
local aside = redis.call('ZCARD', DELAYED) + redis.call('ZCARD', RESERVED)
if ARGV[1] == '0' and redis.call('LLEN', READY) + aside >= redis.call('HLEN', ROWS) then return {'0'} end

local listed = {}
for _, there in ipairs(redis.call('LRANGE', READY, 0, -1)) do listed[there] = true end
local page = redis.call('HSCAN', ROWS, ARGV[1], 'COUNT', 500)
local mended = {page[1]}
for i = 1, #page[2], 2 do
  local row = load(page[2][i])
  local member = place(row)
  if not (listed[item(row)] or redis.call('ZSCORE', DELAYED, member) or redis.call('ZSCORE', RESERVED, member)) then
    redis.call('ZREM', RUN_OUT, member)
    -- What is due by now goes from there to the list, in order.
    redis.call('ZADD', row.token and RESERVED or DELAYED, text(row.available_at), member)
    table.insert(mended, row.id)
  end
end
return mended
