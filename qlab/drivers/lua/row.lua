-- What both layouts share. A job's fields are packed in the hash ROWS, by id; its payload stands alone in BODIES, and no script
-- ever decodes it. Times are microseconds. Texts of numbers come from ARGV as they are, so that none is rounded.

local function text(number) return string.format('%.0f', number) end

local function load(id)
  local packed = redis.call('HGET', ROWS, id)
  if not packed then return nil end
  local row = cmsgpack.unpack(packed)
  return {id = id, uid = row[1], name = row[2], dispatched_at = row[3], attempts = row[4], available_at = row[5], seq = row[6],
          reserved_at = row[7], token = row[8], claimable_since = row[9], ran_out = row[10], entry = row[11]}
end

local function save(row)
  redis.call('HSET', ROWS, row.id, cmsgpack.pack({row.uid, row.name, row.dispatched_at, row.attempts, row.available_at, row.seq,
             row.reserved_at or false, row.token or false, row.claimable_since or false, row.ran_out or false, row.entry}))
end

local function held(id, token)   -- the row, while this token is its fence
  local row = load(id)
  if row and row.token == token then return row end
  return nil
end

local function forget(row)
  redis.call('HDEL', ROWS, row.id)
  redis.call('HDEL', BODIES, row.id)
  redis.call('HDEL', UIDS, row.uid)
end

local function known(uid)        -- the row that has this uid
  local id = redis.call('HGET', UIDS, uid)
  return id and load(id)
end

local function next_seq() return redis.call('HINCRBY', COUNTERS, 'seq', 1) end

local function next_id()         -- of no job that is there, also where somebody has deleted COUNTERS
  local id
  repeat id = text(redis.call('HINCRBY', COUNTERS, 'id', 1)) until redis.call('HEXISTS', ROWS, id) == 0
  return id
end

local function place(row)        -- its member in a sorted set: ties of the score go by seq
  return string.format('%016.0f:%s', row.seq, row.id)
end

local function id_at(place) return string.sub(place, 18) end

local function anew(uid, name, body, now, available_at)   -- a job that stands in no set yet, nor is its row saved
  local row = {id = next_id(), uid = uid, name = name, attempts = 0, entry = 1,
               dispatched_at = tonumber(now), available_at = tonumber(available_at), seq = next_seq()}
  redis.call('HSET', BODIES, row.id, body)
  redis.call('HSET', UIDS, uid, row.id)
  return row
end

local function body(row)         -- its payload; empty, which no JSON is, where somebody has deleted BODIES
  return redis.call('HGET', BODIES, row.id) or ''
end

local function stage(row, now, attempts, error, traceback)   -- move a job that stands in no set any more to FAILING
  redis.call('HSET', FAILING, row.uid, cmsgpack.pack({text(next_seq()), row.uid, row.token, row.name, body(row), attempts,
             error, traceback, text(row.dispatched_at), now}))
  forget(row)
end

local function awaken(count)   -- a token for each job that may be reserved now: a worker waits for one, as long as nothing is due
  for _ = 1, math.min(count, 100 - redis.call('LLEN', WAKE)) do redis.call('RPUSH', WAKE, '') end
end

local function fail_without_payload(row, now, token)   -- nobody can run it, nor should it vanish without a word
  row.token = token
  stage(row, now, text(row.attempts), 'PayloadLost: the server has lost the payload: does its maxmemory-policy evict keys? '
        .. 'jobs need noeviction', '')
end

local function described(row, payload)
  return {tonumber(row.id), row.uid, row.name, payload or body(row), row.attempts, row.dispatched_at,
          row.available_at, row.reserved_at or false, row.claimable_since or false, row.ran_out and 1 or 0, row.seq}
end
