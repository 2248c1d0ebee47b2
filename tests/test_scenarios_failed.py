"""Scenarios of the bug catalogue: retry and forget."""

import pytest
from conftest import QUEUE, outcomes, told

from qlab import Queue
from qlab.driver import Counts
from qlab.errors import UnknownFailedJob
from qlab.job import Attempt


@pytest.fixture
def broken(queue: Queue) -> Queue:
    """A queue with three failed jobs of a handler that always raises."""

    @queue.handler("A", tries=1)
    def handler(job: Attempt) -> None:
        raise ValueError("boom")

    queue.dispatch_many([("A", number) for number in (1, 2, 3)])
    assert outcomes(queue, 0.0, 0.0, 0.0) == ["Failed"] * 3
    return queue


def ids(queue: Queue) -> list[int]:
    return [row.id or 0 for row in queue.failed()]


@pytest.mark.scenario("B42")
def test_a_retried_job_is_no_failed_job_any_more(broken: Queue) -> None:
    first, *others = ids(broken)
    assert broken.retry(first) == 1
    assert ids(broken) == others
    before = broken.counts()
    with pytest.raises(UnknownFailedJob, match=f"no failed job {first} in the queue 'mail'"):
        broken.retry(first)
    assert broken.counts() == before == Counts(ready=1, failed=2)
    assert [job.payload for job in broken.jobs()] == [1]
    assert told(broken, "retried") == [(0.0, "retried", 1)]


@pytest.mark.scenario("B43")
def test_jobs_that_fail_again_after_a_retry_stay_as_many_and_themselves(broken: Queue) -> None:
    uids = [row.uid for row in broken.failed()]
    assert broken.retry("all") == 3
    assert broken.counts() == Counts(ready=3)
    assert broken.retry("all") == 0
    assert outcomes(broken, 1.0, 1.0, 1.0, 1.0) == ["Failed", "Failed", "Failed", "Idle"]
    assert broken.counts() == Counts(failed=3)
    assert [(row.uid, row.payload, row.failed_at) for row in broken.failed()] == [
        (uid, number, 1.0) for number, uid in enumerate(uids, 1)
    ]
    assert broken.retry("all") == 3
    assert broken.counts() == Counts(ready=3)
    assert [job.uid for job in broken.jobs()] == uids
    assert len(told(broken, "retried")) == 6


@pytest.mark.scenario("B44")
@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_an_id_that_is_not_there_is_no_success(broken: Queue, verb: str) -> None:
    for id in (999, 0, -1, 2**63 - 1, 2**63, -(10**30)):
        with pytest.raises(UnknownFailedJob, match=rf"{id}.*failed\(\) lists them"):
            getattr(broken, verb)(id)
    assert broken.counts() == Counts(failed=3)
    assert told(broken, "retried", "forgotten") == []


@pytest.mark.scenario("B44")
def test_an_id_that_is_not_there_keeps_no_other_from_being_retried(broken: Queue) -> None:
    one, two, three = ids(broken)
    moved = broken.driver.retry(QUEUE, [one, 999, two], now=0.0)
    assert [id for id, _ in moved] == [one, two]
    assert ids(broken) == [three]


@pytest.mark.scenario("B44")
@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_all_of_none_is_a_success_of_none(queue: Queue, verb: str) -> None:
    assert getattr(queue, verb)("all") == 0


@pytest.mark.scenario("B44")
@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_what_is_no_id_is_refused(broken: Queue, verb: str) -> None:
    for id in ("1", None, True, 1.0, [1]):
        with pytest.raises(TypeError, match="is no failed job's id: use an integer, or 'all'"):
            getattr(broken, verb)(id)
    assert broken.counts() == Counts(failed=3)
