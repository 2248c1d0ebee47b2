"""ADR 0019's layout: a job is an item of a list.

The keys of a queue, each `prefix:{queue}:list:` and

| key | kind | what it holds |
|---|---|---|
| counters | hash | the last `id` and `seq` given |
| rows | hash | a job's fields, packed, by id |
| bodies | hash | a job's payload, by id |
| uids | hash | a job's id, by uid |
| failing | hash | failures whose rows are not written yet, by uid |
| retried | set | rows of failed_jobs that were retried and not yet deleted, as `file:id:uid` |
| marks | hash | until when workers count as alive and how long runs took, by `kind:name` |
| ready | list | `id:entry` of what may be reserved; an item whose entry is not its row's is skipped |
| delayed | sorted set | `seq:id` of what is available later, by that moment |
| reserved | sorted set | `seq:id` of what workers hold, by the moment at which the reservation runs out |
| run_out | sorted set | `seq:id` of run-out reservations that stand in `ready` while their tokens are still good |
| wake | list | tokens, at most 100, for workers that wait for one: jobs became ready since a worker last found none |

Its order differs from the contract's where nobody polls between two due times, or where a clock goes back: what is
appended first goes first. A call appends at most 100 jobs that have fallen due.
"""

from qlab.drivers.redis_store import RedisStore


class RedisListDriver(RedisStore):
    """A store on Redis or Valkey, with the ready jobs in a list."""

    name = "redis_list"
    order = "arrival"
    layout = "list"
    key_names = (
        "counters",
        "rows",
        "bodies",
        "uids",
        "failing",
        "retried",
        "marks",
        "ready",
        "delayed",
        "reserved",
        "run_out",
        "wake",
    )
