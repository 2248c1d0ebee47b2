-- check: what is inconsistent, looking at 500 rows a call.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: the cursor, 0 at first
-- returns the next cursor (0 at the end), then sentences
local found = {}
local page = redis.call('HSCAN', ROWS, ARGV[1], 'COUNT', 500)
for i = 1, #page[2], 2 do
  local row = load(page[2][i])
  local score = tonumber(redis.call('ZSCORE', AVAILABLE, place(row)))
  local held = tonumber(redis.call('ZSCORE', RESERVED, place(row)))
  if score ~= row.available_at then
    table.insert(found, 'job ' .. row.id .. ' stands in AVAILABLE at another moment than its row says, or not at all')
  end
  if (row.token and row.available_at or nil) ~= held then
    table.insert(found, 'job ' .. row.id .. ' stands in RESERVED at another moment than its row says, or not at all')
  end
  if redis.call('HEXISTS', BODIES, row.id) == 0 then table.insert(found, 'job ' .. row.id .. ' has no payload') end
  if redis.call('HGET', UIDS, row.uid) ~= row.id then table.insert(found, 'job ' .. row.id .. ' is not found by its uid') end
end
if page[1] == '0' then
  local rows = redis.call('HLEN', ROWS)
  for name, count in pairs({AVAILABLE = redis.call('ZCARD', AVAILABLE), BODIES = redis.call('HLEN', BODIES),
                            UIDS = redis.call('HLEN', UIDS)}) do
    if count ~= rows then table.insert(found, name .. ' has ' .. count .. ' entries for ' .. rows .. ' jobs') end
  end
end
table.insert(found, 1, page[1])
return found
