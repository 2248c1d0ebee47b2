"""What happens most in a simulation, in the fewest calls: a job comes, a worker takes it, and completes it in its time.

For a workload without clients and failures, whose jobs have no handlers of their own, and workers that wake at once, on
the memory driver. It does what feed, engine, steps and driver do, one after another, and leaves to them whatever is not
as usual: a job that is another's by then, a worker that is paused, a turn that is somebody else's, an outcome that
somebody listens to. With it or without, a trace is the same, byte for byte.
"""

import heapq
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from qlab.clock import NEVER, us
from qlab.drivers.memory import MemoryDriver
from qlab.job import NewJob
from qlab.simulation.engine import Engine
from qlab.simulation.feed import Feed
from qlab.simulation.seat import Seat
from qlab.trace import CODES, NOTHING, ROW, Kind, Trace

_DISPATCHED, _RESERVED, _COMPLETED = CODES[Kind.DISPATCHED], CODES[Kind.RESERVED], CODES[Kind.COMPLETED]


def is_usual(engine: Engine, feed: Feed) -> bool:
    """Tell whether nothing but the usual is to happen."""
    driver = engine.queue.driver
    return (
        type(driver) is MemoryDriver
        and driver.order == "available_at"
        and type(engine.queue.trace) is Trace
        and engine.is_instant
        and engine.strike is None
        and engine.done is not None
        and engine._lane is not None
        and engine._poll is None
        and not any(seat.ahead for seat in engine.seats)
        and feed._is_open
        and not feed._thinks
    )


def hurry(engine: Engine, feed: Feed) -> AbstractContextManager[object]:  # noqa: C901 - each further call costs
    """Let an engine and its feed do the usual in the fewest calls.

    Returns:
        What has to be held while they do: the store's lock, taken once for many jobs.
    """
    driver, queue, trace = engine.queue.driver, engine.queue, engine.queue.trace
    if not isinstance(driver, MemoryDriver) or not is_usual(engine, feed):
        return nullcontext()
    there, tokens, name_of = driver._queue(queue.name), driver._tokens, queue.name
    names, samplers, uids, push = feed._names, feed._first, queue._uids, heapq.heappush
    heap, idle, turns, inside = engine._heap, engine._idle, engine._turns, feed._inside
    pack, write, codes = ROW.pack, trace._rows.append, trace._codes
    for text in (*samplers, *(seat.name for seat in engine.seats)):
        trace._number(text)
    takes_for, made, listeners = engine.service or feed._takes, tuple.__new__, engine._steps.listeners

    def arrive(moments: Iterator[float], serial: int) -> None:
        if turns:
            feed._arrive(moments, serial)
            return
        left = feed._left
        moment = None if left == 0 else next(moments, None)
        if moment is None:
            engine.coming -= 1
        else:
            if left is not None:
                feed._left = left - 1
            engine._serial = number = engine._serial + 1
            push(heap, (round(moment * 1_000_000), number, arrive, moments))
        name, now = names(), engine._now
        id = there.push(made(NewJob, (uids.next(), name, "null", 0.0)), now, now, name_of)[0]
        write(pack(now, id, NOTHING, now, codes[name], 0, 0, 0, _DISPATCHED))
        inside[id] = samplers[name]()
        if idle:
            take(idle.popleft(), now)

    def end(seat: Seat, serial: int) -> None:
        held = seat.held
        if seat.planned != serial or held is None or seat.paused or seat.telling or seat.leaving or turns or listeners:
            engine._end_step(seat, serial)
            return
        job, token, _, _ = held
        id, uid, _, name, _, attempts, _, _, _ = job
        row = there.rows.get(id)
        if row is None or row[4] != token:
            engine._end_step(seat, serial)
            return
        del there.rows[id], there.uids[uid]
        now = engine._now
        write(pack(now, id, NOTHING, NOTHING, codes[name], attempts, codes[seat.name], 0, _COMPLETED))
        inside.pop(id, None)
        seat.held = seat.until = None
        seat.planned = 0
        if idle and not engine._is_unsure and now / 1_000_000 < engine._due:
            idle.append(seat)  # where another rests, nothing is there
        else:
            take(seat, now)

    def take(seat: Seat, now: int) -> None:
        lasts = queue.policy.retry_after
        deadline = NEVER if lasts is None else now + us(lasts)
        held = there.take_one(now, deadline, tokens, name_of)
        if held is None:
            there.tokens = 0  # of jobs that are gone
            engine._rest(seat)
            return
        (id, _, _, name, _, attempts, _, until, _), _, since, ran_out = held
        if ran_out:
            trace.record(now / 1_000_000, Kind.EXPIRED, id, name, attempts - 1, seat.name, until=since)
        began = round(since * 1_000_000)
        write(pack(now, id, began, deadline, codes[name], attempts, codes[seat.name], 0, _RESERVED))
        seat.held = held
        if until < engine._due:
            engine._due = until
            if idle:
                engine._plan_wake()
        takes = takes_for(held)
        if takes is None:
            engine._begin(seat)
            return
        at = now + takes
        seat.until, seat.judged = at / 1_000_000, False
        engine._serial = seat.planned = serial = engine._serial + 1
        push(heap, (at, serial, end, seat))

    engine.ends, feed.arrives = end, arrive
    return driver._lock
