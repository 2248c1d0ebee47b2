"""Listeners of statements are somebody else's code: no job hangs on what they do."""

import pytest
from watching import Watched, heard

from qlab import Completed, Queue
from qlab.driver import Statement
from qlab.errors import DriverUnavailable
from qlab.worker import Worked


@pytest.mark.scenario("B13")
@pytest.mark.parametrize("error", [ValueError("a statistic"), TimeoutError(), DriverUnavailable("another store")])
def test_a_listener_that_raises_is_reported_and_stops_no_job(queue: Queue, error: Exception) -> None:
    ran: list[int] = []
    queue.handler("good")(lambda job: ran.append(job.number))
    queue.handler("bad", tries=1)(lambda job: 1 / 0)
    heard_of: list[str] = []

    def listener(statement: Statement) -> None:
        heard_of.append(statement.verb)
        raise error

    queue.driver.listen(listener)
    with heard() as log:
        queue.dispatch("good")
        assert isinstance(queue.work_once(), Completed)
        queue.dispatch("good")
        queue.dispatch("bad")
        with Watched(queue) as worker:
            worker.until_idle()
        assert queue.retry("all") == 1
    assert ran == [1, 1]
    assert worker.worked == Worked(completed=1, failed=1)
    assert log.count("a listener of statements went wrong") == len(heard_of) > 0
    assert log.count("its store is away") == 0


@pytest.mark.scenario("B13")
def test_a_listener_that_raises_keeps_no_other_from_hearing(queue: Queue) -> None:
    queue.handler("bad", tries=1)(lambda job: 1 / 0)
    queue.driver.listen(lambda statement: 1 / 0)
    queue.dispatch("bad")
    with queue.statements() as seen:
        queue.work_once()
    assert seen
