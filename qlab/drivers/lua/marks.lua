-- marks: list the values, about 500 a call, in no order; now and then one comes twice.
-- KEYS: the queue's keys, as the driver maps them
-- ARGV: the cursor, 0 at first
-- returns the next cursor (0 at the end), then pairs of field and value
local page = redis.call('HSCAN', MARKS, ARGV[1], 'COUNT', 500)
local found = {page[1]}
for i = 1, #page[2], 2 do table.insert(found, {page[2][i], page[2][i + 1]}) end
return found
