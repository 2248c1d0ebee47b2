-- retry, step 1: make jobs anew from rows of failed_jobs, drop their FAILING entries, and note the rows; a row noted already is
-- left alone.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: now; then note, uid, name, payload of each row
-- returns the jobs that now have the uids; 0 for a row that was noted already
local jobs = {}
for i = 2, #ARGV, 4 do
  local uid = ARGV[i + 1]
  local noted = redis.call('SADD', RETRIED, ARGV[i]) == 0
  local there = redis.call('HGET', UIDS, uid)
  if not noted and not there then
    there = text(redis.call('HINCRBY', COUNTERS, 'id', 1))
    local row = {id = there, uid = uid, name = ARGV[i + 2], dispatched_at = tonumber(ARGV[1]), attempts = 0,
                 available_at = tonumber(ARGV[1]), seq = next_seq(), entry = 1}
    redis.call('HDEL', FAILING, uid)
    redis.call('HSET', BODIES, there, ARGV[i + 3])
    redis.call('HSET', UIDS, uid, there)
    redis.call('RPUSH', READY, item(row))
    save(row)
  end
  table.insert(jobs, not noted and described(load(there)) or 0)
end
return jobs
