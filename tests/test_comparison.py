"""The main job: the same work on several drivers, and the page that tells of it."""

import re
from pathlib import Path

import pandas as pd
import pytest
import redis
from conftest import Servers
from pages import Page

from qlab import Comparison, compare, comparison_report, report
from qlab.comparison import REPEATS
from qlab.contend import stores
from qlab.errors import MissingRequirement


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    for i in range(12):
        (folder / f"module_{i:02}.py").write_text(f"def f{i}(): return {i}\n")
    (folder / "module_99.py").write_text("def broken(:\n")
    return folder


@pytest.fixture(scope="module")
def compared(folder: Path) -> Comparison:
    return compare(workers=(1, 2), folder=folder)


def test_the_drivers_agree_but_for_the_list_whose_reason_is_told(compared: Comparison) -> None:
    assert [run.driver for run in compared.runs] == ["memory", "sqlite", "redis_list", "redis_zset"]
    assert {each.driver: each.difference is None for each in compared.agreements} == {
        "sqlite": True,
        "redis_list": False,
        "redis_zset": True,
    }
    told = list(comparison_report.answer(compared))
    assert told[0].startswith("memory, sqlite and redis_zset did the same, event by event")
    assert "redis_list goes by the order in which jobs came into its list" in told[1]


def test_every_real_job_ran_once_on_every_arm(compared: Comparison) -> None:
    real = compared.real()
    assert list(zip(real["driver"], real["workers"], strict=True)) == [
        ("sqlite", 1), ("sqlite", 2), ("redis_zset", 1), ("redis_zset", 2),
    ]  # fmt: skip
    assert set(real["jobs"]) == {14}
    assert set(real["runs"]) == {REPEATS}
    assert set(real["once"]) == {14 * REPEATS}
    assert ((real["low"] <= real["jobs_per_second"]) & (real["jobs_per_second"] <= real["high"])).all()
    assert set(real["twice"]) == set(real["never"]) == {0}
    assert real["store"].str.contains("WAL, synchronous=NORMAL|AOF everysec").all()


def test_the_tables_have_their_columns_also_where_no_driver_ran_in_real_time(compared: Comparison) -> None:
    alone = compare(["memory"], quick=True)
    for told, none in ((compared.real(), alone.real()), (compared.survival(), alone.survival())):
        assert len(none) == 0
        assert dict(none.dtypes) == dict(told.dtypes)


def test_each_table_says_what_each_store_survives(compared: Comparison) -> None:
    survival = compared.survival()
    assert list(survival.columns) == ["store", "worker killed", "store killed", "power cut"]
    assert len(survival) == 2
    assert set(survival["worker killed"]) == {"nothing"}


def test_the_report_is_one_page_that_needs_nothing_else(compared: Comparison, tmp_path: Path) -> None:
    page = comparison_report.write(compared, tmp_path / "report", command="qlab compare --seed 7")
    told = Page(page.read_text(encoding="utf-8"))
    assert all(load.startswith("data:image/png;base64,") for load in told.loads)
    assert len(told.about) == len(told.loads) == len(told.links) >= 5
    assert all((page.parent / link).is_file() for link in told.links)
    assert all(told.about)
    assert "qlab compare --seed 7" in told.words
    assert all(str(value) in told.words for value in compared.machine.values())
    beside = {file.name for file in page.parent.iterdir()}
    assert {"index.html", "events.csv", "simulated.csv", "real.csv", "rates.png", "timeline-memory.png"} <= beside
    assert len(pd.read_csv(page.parent / "events.csv")) == sum(len(run.trace) for run in compared.runs)


def test_a_report_replaces_an_earlier_one_and_nothing_else(compared: Comparison, tmp_path: Path) -> None:
    target = tmp_path / "report"
    comparison_report.write(compared, target, command="first")
    (target / "left.png").touch()
    page = comparison_report.write(compared, target, command="second")
    assert "second" in page.read_text(encoding="utf-8")
    assert not (target / "left.png").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]
    (target / "notes.md").touch()
    with pytest.raises(ValueError, match="holds 'notes.md'"):
        comparison_report.write(compared, target, command="over somebody's notes")
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="holds 'thesis.txt', which is of no report"):
        comparison_report.write(compared, precious, command="third")
    assert [entry.name for entry in precious.iterdir()] == ["thesis.txt"]
    with pytest.raises(ValueError, match="is no folder"):
        comparison_report.write(compared, precious / "thesis.txt", command="fourth")


def test_a_report_that_cannot_be_finished_leaves_nothing(
    compared: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "png", interrupted)
    with pytest.raises(KeyboardInterrupt):
        comparison_report.write(compared, tmp_path / "report", command="")
    assert list(tmp_path.iterdir()) == []


def test_what_handlers_say_is_escaped_on_the_page_and_in_its_csv(tmp_path: Path) -> None:
    odd = pd.DataFrame({"text": ["<script>alert(1)</script>", "=1+1", "\x1b[31mred"], "number": [1, 2, 3]})
    section = report.Section("<b>title", ["<i>text"], [("<u>caption", odd)])
    whole = report.Report("<s>head", "", ["<p>answer"], [section], {"<m>": "<v>"}, {"odd": odd})
    page = report.write(whole, tmp_path / "report", command="<command>")
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"<(script|b|i|u|s|m|v|command)>", text)
    assert "\x1b" not in text
    assert list(pd.read_csv(page.parent / "odd.csv")["text"]) == [
        "<script>alert(1)</script>", "'=1+1", "'\x1b[31mred",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"driver_names": ["postgres"]}, "there is no driver 'postgres': use memory, sqlite"),
        ({"driver_names": []}, "at least one driver"),
        ({"workers": ()}, "at least one driver and one number of workers"),
        ({"workers": (0,)}, "workers is 0: use numbers from 1 to"),
        ({"workers": (1.5,)}, "workers is 1.5"),
        ({"folder": "/nowhere/at/all"}, "/nowhere/at/all"),
    ],
)
def test_what_cannot_be_compared_is_refused_first(how: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        compare(**how)  # type: ignore[arg-type]


def test_without_a_server_the_redis_drivers_are_left_out_unless_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(**_: object) -> None:
        raise MissingRequirement("no server here")

    monkeypatch.setattr(stores, "EmbeddedServer", missing)
    compared = compare(workers=(1,), folder=folder)
    assert [run.driver for run in compared.runs] == ["memory", "sqlite"]
    assert compared.skipped == {"redis_list": "no server here", "redis_zset": "no server here"}
    assert "redis_zset was left out: no server here" in list(comparison_report.answer(compared))
    with pytest.raises(MissingRequirement):
        compare(["redis_zset"], workers=(1,), folder=folder)


def test_a_given_server_is_used_and_left_as_it_was(folder: Path, servers: Servers) -> None:
    client = redis.Redis.from_url(servers["valkey"].url)
    client.set("somebody's", "value")
    before = sorted(client.keys())
    compared = compare(["sqlite", "redis_zset"], workers=(1,), folder=folder, redis=servers["valkey"].url)
    assert compared.runs[1].description.startswith("Valkey")
    assert sorted(client.keys()) == before
    client.delete("somebody's")
    client.close()


def test_nothing_is_left_behind_when_it_is_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def stop(done: float, what: str) -> None:
        if "worker" in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(["sqlite", "redis_zset"], workers=(1,), folder=folder, progress=stop)
    assert list(tmp_path.iterdir()) == []
