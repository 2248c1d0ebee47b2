-- push: append jobs to the list, or set them aside until they are due.
-- KEYS: the queue's keys, as redis_list.py maps them
-- ARGV: now; then uid, name, payload, available_at of each job
-- returns for each job its new id, or the job that has its uid already, or 0 where that one is being failed
local pushed, ready = {}, 0
for i = 2, #ARGV, 4 do
  local uid, there = ARGV[i], known(ARGV[i])
  if there then
    table.insert(pushed, described(there))
  elseif redis.call('HEXISTS', FAILING, uid) == 1 then
    table.insert(pushed, 0)
  else
    local row = anew(uid, ARGV[i + 1], ARGV[i + 2], ARGV[1], ARGV[i + 3])
    if row.available_at <= row.dispatched_at then
      redis.call('RPUSH', READY, item(row))
      ready = ready + 1
    else
      redis.call('ZADD', DELAYED, ARGV[i + 3], place(row))
    end
    save(row)
    table.insert(pushed, tonumber(row.id))
  end
end
awaken(ready)
return pushed
