-- retry, step 1: make jobs anew from rows of failed_jobs, drop their FAILING entries, and note the rows; a row noted already is
-- left alone.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: now; then note, uid, name, payload of each row
-- returns the jobs that now have the uids; 0 for a row that was noted already
local jobs, ready = {}, 0
for i = 2, #ARGV, 4 do
  local uid = ARGV[i + 1]
  local noted = redis.call('SADD', RETRIED, ARGV[i]) == 0
  local there = known(uid)
  if not noted and not there then
    local row = anew(uid, ARGV[i + 2], ARGV[i + 3], ARGV[1], ARGV[1])
    redis.call('HDEL', FAILING, uid)
    redis.call('ZADD', AVAILABLE, ARGV[1], place(row))
    save(row)
    there = row
    ready = ready + 1
  end
  table.insert(jobs, not noted and described(there) or 0)
end
awaken(ready)
return jobs
