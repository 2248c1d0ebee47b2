local COUNTERS, ROWS, BODIES, UIDS, FAILING, RETRIED, MARKS, READY, DELAYED, RESERVED, RUN_OUT, WAKE = unpack(KEYS)
local function item(row)   -- a job in the list; an item with another entry than its row's is skipped
  return string.format('%s:%.0f', row.id, row.entry)
end
