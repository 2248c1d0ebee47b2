-- jobs: list the jobs that are waiting or reserved, about 500 a call, in no order.
-- KEYS: the queue's keys, as the driver maps them
-- ARGV: the cursor, 0 at first
-- returns the next cursor (0 at the end), then the jobs
local jobs = {}
local page = redis.call('HSCAN', ROWS, ARGV[1], 'COUNT', 500)
table.insert(jobs, page[1])
for i = 1, #page[2], 2 do table.insert(jobs, described(load(page[2][i]))) end
return jobs
