"""The contract's order on Redis: one sorted set by the moment from which a job may be reserved.

The keys of a queue, each `prefix:{queue}:zset:` and

| key | kind | what it holds |
|---|---|---|
| counters | hash | the last `id` and `seq` given |
| rows | hash | a job's fields, packed, by id |
| bodies | hash | a job's payload, by id |
| uids | hash | a job's id, by uid |
| failing | hash | failures whose rows are not written yet, by uid |
| retried | set | rows of failed_jobs that were retried and not yet deleted, as `file:id:uid` |
| marks | hash | until when workers count as alive and how long runs took, by `kind:name` |
| available | sorted set | `seq:id` of every job, by the moment from which it may be reserved |
| reserved | sorted set | `seq:id` of what workers hold, by the moment at which the reservation runs out |
| wake | list | tokens, at most 100, for workers that wait for one: jobs became ready since a worker last found none |
"""

from qlab.drivers.redis_store import RedisStore


class RedisZsetDriver(RedisStore):
    """A store on Redis or Valkey, with every job in one sorted set."""

    name = "redis_zset"
    layout = "zset"
    key_names = ("counters", "rows", "bodies", "uids", "failing", "retried", "marks", "available", "reserved", "wake")
