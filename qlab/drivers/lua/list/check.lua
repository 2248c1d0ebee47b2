-- check: what is inconsistent, looking at 500 rows a call.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: the cursor, 0 at first
-- returns the next cursor (0 at the end), then sentences
local found = {}
local page = redis.call('HSCAN', ROWS, ARGV[1], 'COUNT', 500)
local listed = {}
for _, popped in ipairs(redis.call('LRANGE', READY, 0, -1)) do listed[popped] = true end
for i = 1, #page[2], 2 do
  local row = load(page[2][i])
  local delayed = redis.call('ZSCORE', DELAYED, place(row))
  local reserved = redis.call('ZSCORE', RESERVED, place(row))
  local places = (delayed and 1 or 0) + (reserved and 1 or 0) + (listed[item(row)] and 1 or 0)
  if places ~= 1 then table.insert(found, 'job ' .. row.id .. ' is in ' .. places .. ' places') end
  local score = tonumber(delayed or reserved)
  if score and score ~= row.available_at then
    table.insert(found, 'job ' .. row.id .. ' is set aside until another moment than its row says')
  end
  if reserved and not row.token then table.insert(found, 'job ' .. row.id .. ' is in RESERVED without a token') end
  if redis.call('HEXISTS', BODIES, row.id) == 0 then table.insert(found, 'job ' .. row.id .. ' has no payload') end
  if redis.call('HGET', UIDS, row.uid) ~= row.id then table.insert(found, 'job ' .. row.id .. ' is not found by its uid') end
end
if page[1] == '0' then
  local rows, aside = redis.call('HLEN', ROWS), redis.call('ZCARD', DELAYED) + redis.call('ZCARD', RESERVED)
  if aside > rows then table.insert(found, 'DELAYED and RESERVED have ' .. aside .. ' entries for ' .. rows .. ' jobs') end
  for name, count in pairs({BODIES = redis.call('HLEN', BODIES), UIDS = redis.call('HLEN', UIDS)}) do
    if count ~= rows then table.insert(found, name .. ' has ' .. count .. ' entries for ' .. rows .. ' jobs') end
  end
  for _, member in ipairs(redis.call('ZRANGE', RUN_OUT, 0, -1)) do
    local row = load(id_at(member))
    if not (row and row.token and place(row) == member and listed[item(row)]) then
      table.insert(found, 'job ' .. id_at(member) .. ' is in RUN_OUT without a reservation that has run out')
    end
  end
end
table.insert(found, 1, page[1])
return found
