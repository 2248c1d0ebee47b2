"""A queue in shards on a cluster, as README has it; and what `qlab bench shards` measures. No speed is asserted."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import ClusterOfThree
from conftest import Servers, program
from redis.crc import key_slot

from qlab import Completed, Superseded, benchmarks, target
from qlab.benchmarks import shards as benchmark
from qlab.outcome import Idle
from qlab.steps import Ended

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
CUSTOMERS = ("ada", "bob", "cem", "dia", "eve", "fay", "gus", "hal", "ida", "jon")


@pytest.fixture
def cluster(servers: Servers) -> ClusterOfThree:
    return servers["cluster-redis"]


@pytest.fixture
def shop(cluster: ClusterOfThree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """README's module, on a cluster."""
    failed_jobs = f"sqlite:///{tmp_path}/failed.db"
    monkeypatch.setenv("QLAB_URL", f"{cluster.url}?prefix={tmp_path.name}&failed_jobs={failed_jobs}")
    (block,) = re.findall(r"^```py\n(# shop.py\nimport os\nfrom zlib.*?)^```", README, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "shop.py", "exec"), names)
    names["sent"] = sent = []
    for shard in names["shards"]:
        shard.handler("mail")(lambda job: sent.append(tuple(job.payload)))
    yield names
    for shard in names["shards"]:
        names["store"].delete(shard.name)
    names["store"].close()


def test_one_customer_s_jobs_stay_in_order_whichever_shard_is_worked_when(shop: dict[str, Any]) -> None:
    for number in range(5):
        for customer in CUSTOMERS:
            shop["shard_of"](customer).dispatch("mail", [customer, number])
    used = [shard for shard in shop["shards"] if shard.counts().ready]
    assert len(used) > 3
    while used:
        used = [shard for shard in reversed(used) if not isinstance(shard.work_once(), Idle)]
    assert len(shop["sent"]) == 5 * len(CUSTOMERS)
    for customer in CUSTOMERS:
        assert [number for who, number in shop["sent"] if who == customer] == [0, 1, 2, 3, 4]


def test_the_shards_lie_on_every_node_and_each_has_a_fence_of_its_own(
    shop: dict[str, Any], cluster: ClusterOfThree
) -> None:
    nodes = [cluster.owner(key_slot(shop["store"].keys(shard.name)[0].encode())) for shard in shop["shards"]]
    assert sorted(nodes) == [0, 0, 1, 1, 2, 2]
    for shard in shop["shards"]:
        shard.dispatch("mail", ["x", 0])
        late = shard.reserve(now=1_000.0 + shard.clock.now())
        again = shard.reserve(now=2_000.0 + shard.clock.now())
        assert isinstance(shard.settle(late, Ended()), Superseded)
        assert isinstance(shard.settle(again, Ended()), Completed)
        assert shard.counts().depth == 0


def test_a_shard_is_named_on_the_command_line_by_its_place() -> None:
    assert target.parse("shop:shards.3").variable == "shards.3"
    assert README.count("`qlab work shop:shards.0`") == 1


def test_shards_are_measured_on_one_node_and_on_three_and_held_against_the_model() -> None:
    program("redis")
    found = {each.figure: each for each in benchmarks.measure(["shards"], jobs=600, runs=1).measured}
    assert list(found) == [figure.name for figure in benchmark.BENCHMARKS[0].figures]
    values = {name: each.median for name, each in found.items() if each.median}
    assert len(values) == len(found)
    assert all(0 < value < math.inf for value in values.values())
    assert values["three / one"] == values["three nodes"] / values["one node"]
    assert values["most of a node"] * values["a node's time"] == pytest.approx(1e6)
    assert 1 <= values["three / one, model"] <= 3
    assert values["processes that fill a node"] == pytest.approx(
        values["most of a node"] / values["one process"], rel=0.01
    )


def test_without_a_server_the_measure_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    (first, *_) = benchmarks.measure(["shards"], jobs=600, runs=1).measured
    assert first.skipped == "there is no redis-server on PATH, of which the nodes of a cluster are made"
