"""Names that nobody else makes: each once, and those of a block side by side where an index keeps them."""

import sqlite3
from contextlib import closing
from itertools import groupby
from pathlib import Path

from conftest import QUEUE

from qlab import Queue
from qlab.tokens import Tokens


def test_each_is_32_hexadecimal_digits_and_given_once() -> None:
    one, other = Tokens(), Tokens()
    given = [source.next() for _ in range(2_000) for source in (one, other)]
    assert all(len(each) == 32 and set(each) <= set("0123456789abcdef") for each in given)
    assert len(set(given)) == 4_000


def test_those_of_a_block_begin_alike_and_no_other_block_s_do() -> None:
    sources = [Tokens() for _ in range(20)]
    blocks = [[source.next() for _ in range(256)] for source in sources for _ in range(2)]
    heads = [{each[:16] for each in block} for block in blocks]
    assert [len(head) for head in heads] == [1] * 40
    assert len(set.union(*heads)) == 40
    assert all(len({each[16:] for each in block}) == 256 for block in blocks)


def test_a_dispatch_into_a_long_backlog_writes_few_pages(tmp_path: Path) -> None:
    """Each page of an index that a chunk touches is written: with uids all over it, that would be one for each job."""
    with Queue(f"sqlite:///{tmp_path}/jobs.db", name=QUEUE) as queue:
        queue.handler("A")(lambda job: None)
        queue.dispatch_many(("A", None) for _ in range(20_000))
        with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            queue.dispatch_many(("A", None) for _ in range(500))
            (_, written, _) = other.execute("PRAGMA wal_checkpoint").fetchone()
        uids = [job.uid for job in queue.jobs()]
    assert 0 < written < 60
    assert len(list(groupby(uids, lambda uid: uid[:16]))) < 20_500 / 256 + 5
