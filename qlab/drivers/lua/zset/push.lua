-- push: store jobs, each behind those that are claimable by the same moment.
-- KEYS: the queue's keys, as redis_zset.py maps them
-- ARGV: now; then uid, name, payload, available_at of each job
-- returns for each job its new id, or the job that has its uid already, or 0 where that one is being failed
local pushed = {}
for i = 2, #ARGV, 4 do
  local uid, there = ARGV[i], redis.call('HGET', UIDS, ARGV[i])
  if there then
    table.insert(pushed, described(load(there)))
  elseif redis.call('HEXISTS', FAILING, uid) == 1 then
    table.insert(pushed, 0)
  else
    local id = text(redis.call('HINCRBY', COUNTERS, 'id', 1))
    local row = {id = id, uid = uid, name = ARGV[i + 1], dispatched_at = tonumber(ARGV[1]), attempts = 0,
                 available_at = tonumber(ARGV[i + 3]), seq = next_seq(), entry = 0}
    redis.call('HSET', BODIES, id, ARGV[i + 2])
    redis.call('HSET', UIDS, uid, id)
    redis.call('ZADD', AVAILABLE, ARGV[i + 3], place(row))
    save(row)
    table.insert(pushed, tonumber(id))
  end
end
return pushed
