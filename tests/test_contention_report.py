"""What a contention says in words, each sentence with its number, and the page that begins with it."""

import pytest
from contended import (
    ALL_OF_PEERS,
    ALWAYS,
    CLASSES,
    DELETE,
    EVERYSEC,
    FULL,
    LIST,
    MEMORY,
    NONE,
    OFF,
    SQLITE,
    WAITS,
    WHOLE,
    arm,
    found,
    together,
)  # fmt: skip
from pages import Page

from qlab import contention_report, theory
from qlab.contend import Contention
from qlab.contention_answer import answer, details
from qlab.contention_limits import classes_of, rows_of


def said(*arms, rate=None, **told):
    return answer(found(together(*arms), **told), rate=rate)


def starting(lines, start):
    return [line for line in lines if line.startswith(start)]


# -- which store is enough until when --


def test_what_one_can_be_counted_on_for_is_seven_tenths_of_the_most_that_it_did():
    (line,) = starting(said(FULL, ALWAYS), "To survive a power cut:")
    wait = theory.MMc(rate=0.7 * 2_980, service=1 / 2_980, workers=1).wait
    assert f"SQLite until about 2,100 jobs/s (mean time in line {1e6 * wait:.0f} µs)" in line
    assert "from there Redis until at least about 3,300 jobs/s (mean time in line 496 µs)." in line
    assert "sqlite FULL did 2,980 jobs/s (8 workers, worst reserve 200 ms)" in line
    assert "redis_zset always did 4,700 jobs/s (8 workers, still rising, worst reserve 88 ms)" in line


def test_redis_is_not_advised_where_it_reaches_no_further():
    (line,) = starting(said(OFF, NONE), "To survive a killed worker:")
    assert "SQLite until about 23,000 jobs/s" in line
    assert "Redis reaches no further here (about 19,000 jobs/s)" in line


def test_a_store_whose_limit_was_not_reached_is_not_said_to_reach_no_further():
    rising = NONE.assign(jobs_per_second=[2_000.0, 4_000, 8_000, 15_000], low=1_900.0, high=15_100.0)
    (line,) = starting(said(OFF, rising), "To survive a killed worker:")
    assert "SQLite until about 23,000 jobs/s" in line
    assert "Redis until at least about 10,000 jobs/s" in line
    assert "no further" not in line


def test_single_runs_are_not_told_apart():
    once = [each.assign(runs=1, low=each["jobs_per_second"], high=each["jobs_per_second"]) for each in (FULL, ALWAYS)]
    (line,) = starting(said(*once), "To survive a power cut:")
    assert "SQLite until about 2,100 jobs/s" in line
    assert "; Redis until at least about 3,300 jobs/s" in line
    assert "from there" not in line
    assert class_of(*once)[0] == "Who is the faster, by workers: not told, for it was run once, with 1, 2, 4 and 8."


def test_two_whose_runs_overlap_are_not_told_apart():
    (line,) = starting(said(SQLITE, EVERYSEC), "To survive a power cut but")
    assert "SQLite or Redis until about 18,000 jobs/s" in line
    assert "their runs overlap" in line
    assert "from there Redis" not in line


def test_workers_that_were_too_few_for_the_store_are_told():
    slow = SQLITE.assign(jobs_per_second=[200.0, 400, 800, 1_600], low=1.0, high=2_000.0)
    (line,) = starting(said(slow), "To survive")
    assert "until at least about 1,100 jobs/s" in line
    assert "still rising" in line
    more = EVERYSEC.assign(jobs_per_second=9_000.0, low=8_000.0, high=9_500.0)
    (line,) = starting(said(slow, more), "To survive")
    assert "Redis until" in line
    assert "from there" not in line
    (line,) = starting(said(SQLITE), "To survive")
    assert "rising" not in line
    assert "at least" not in line


def test_the_fastest_arm_of_a_store_stands_for_it_and_one_with_a_round_trip_added_for_none():
    far = arm("redis_zset always +1 ms", CLASSES[3], [9_000] * 4, 0.001)
    (line,) = starting(said(FULL, DELETE, ALWAYS, far), "To survive")
    assert "sqlite FULL" in line
    assert "DELETE" not in line
    assert "+1 ms" not in line


def test_each_class_is_told_by_itself_those_that_survive_most_first():
    lines = [line.split(":")[0] for line in starting(answer(found(WHOLE)), "To survive")]
    assert lines == [f"To survive {survives}" for survives in reversed(CLASSES)]


# -- who is the faster, how evenly, and what was foretold --


def class_of(*arms):
    (only,) = classes_of(rows_of(together(*arms)))
    return details(only)


def test_who_is_the_faster_is_told_by_workers_and_not_where_runs_overlap():
    assert class_of(FULL, ALWAYS)[0] == (
        "Who is the faster, by workers: neither clearly with 1 and 4; SQLite with 2 (1.49 times); Redis with 8 "
        "(1.58 times)."
    )
    elsewhere = ALWAYS.assign(workers=[16, 32, 48, 64])
    assert class_of(FULL, elsewhere)[0] == "They were not run with the same number of workers."
    assert not [line for line in class_of(FULL, DELETE) if "faster" in line]


def test_the_worst_reserve_and_the_fairness_are_of_the_most_workers():
    (line,) = starting(class_of(FULL, ALWAYS), "Worst reserve")
    assert line.endswith("sqlite FULL 200 ms and 0.69 (8 workers); redis_zset always 88 ms and 1.00 (8 workers).")
    assert starting(class_of(FULL[FULL["workers"] == 1]), "Worst reserve") == []


def test_what_one_worker_foretold_is_held_against_what_many_did():
    (line,) = starting(class_of(FULL), "Foretold")
    model = theory.Closed(clients=8, think=1 / 1_500 - 0.6e-3, service=0.6e-3)
    assert f"sqlite FULL has its knee at {model.knee:.3g} workers" in line
    assert f"8 workers did {2_980 / model.throughput:.2f} times what they should" in line
    assert starting(class_of(FULL[FULL["workers"] > 1]), "Foretold") == []


# -- the rate that somebody has --


def at(rate, *arms):
    (line,) = starting(said(*arms, rate=rate), "At ")
    return line


def test_a_rate_that_both_are_enough_for_is_told_with_the_fewest_workers_of_each():
    assert at(200, FULL, ALWAYS) == (
        "At 200 jobs/s, to survive a power cut: SQLite is enough. sqlite FULL with 1 worker (1,500 jobs/s at most; "
        "a job waits in line for 103 µs on average); so is redis_zset always with 1 worker (1,660 jobs/s at most; a "
        "job waits in line for 82.5 µs on average)."
    )
    assert "sqlite FULL with 2 workers (2,800 jobs/s at most" in at(1_500, FULL, ALWAYS)


def test_a_rate_that_only_redis_is_enough_for_says_how_far_sqlite_falls_short():
    line = at(2_500, FULL, ALWAYS)
    assert "Redis is enough. redis_zset always with 8 workers" in line
    assert "sqlite FULL would be at 84% of the 2,980 jobs/s that it did at most" in line
    assert "sqlite FULL did 2,980 jobs/s at most" in at(3_100, FULL, ALWAYS)


def test_a_rate_that_none_is_enough_for_is_told_to_be():
    assert at(100_000, FULL, ALWAYS).startswith("At 100,000 jobs/s, to survive a power cut: none is enough.")
    assert at(0.5, MEMORY).endswith("memory with 1 worker (90,000 jobs/s at most; a job hardly waits).")


def test_the_answer_for_a_rate_comes_first():
    assert said(FULL, ALWAYS, rate=200)[0].startswith("At 200 jobs/s")


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match=r"rate is .*: use a number of jobs a second above 0"):
        answer(found(WHOLE), rate=rate)


# -- a network --


def test_a_round_trip_that_was_measured_is_told_beside_the_same_without_over_the_same_socket():
    far = arm("redis_zset everysec +1 ms", CLASSES[2], [800, 1_600, 3_200, 6_300], 0.0012, server_cpu=38e-6)
    lines = said(EVERYSEC, far)
    (line,) = starting(lines, "With a round trip of 1 ms more")
    assert "(redis_zset everysec +1 ms), 1 worker did 800 jobs/s instead of 8,400 jobs/s" in line
    assert "8 workers did 6,300 jobs/s instead of 24,000 jobs/s" in line
    assert starting(lines, "Redis ran beside") == []
    tcp = arm("redis_zset everysec tcp", CLASSES[2], [7_000, 14_000, 21_000, 22_000], 0.0001, server_cpu=38e-6)
    (line,) = starting(said(EVERYSEC, tcp, far), "With a round trip")
    assert "1 worker did 800 jobs/s instead of 7,000 jobs/s" in line


def test_a_round_trip_that_was_not_is_told_as_the_model_says():
    (line,) = starting(said(EVERYSEC, SQLITE), "Redis ran beside its workers. By the model")
    away = theory.Closed(clients=1, think=1 / 8_400 - 38e-6 + 0.0005, service=38e-6)
    assert f"lets 1 worker of redis_zset everysec do {away.throughput:,.0f} jobs/s instead of 8,400 jobs/s" in line
    assert f"puts the knee at {away.knee:.3g} workers instead of 3.13" in line
    assert starting(said(SQLITE), "Redis ran") == []


def test_a_model_that_did_not_foretell_many_workers_foretells_no_round_trip_either():
    grouped = arm("redis_zset always", CLASSES[3], [200, 400, 800, 1_500], 0.005)
    assert starting(said(FULL, grouped), "Redis ran beside") == []


# -- what cannot be said --


def test_no_lost_job_is_said_and_a_lost_one_comes_before_everything():
    assert said(FULL)[0] == "Of 240,000 jobs, no arm lost one or did one twice."
    wrong = said(FULL, ALWAYS.assign(lost=[0, 0, 0, 1], duplicated=0))
    assert wrong[0] == "WRONG: redis_zset always with 8 workers lost 3 jobs and did 0 twice."
    assert starting(wrong, "Of ") == []


def test_a_store_that_was_not_run_is_said_nothing_of():
    assert f"Nothing can be said of Redis where {CLASSES[3]} is to be survived: it was not run." in said(FULL, DELETE)
    assert f"Nothing can be said of SQLite where {CLASSES[2]} is to be survived: it was not run." in said(
        LIST, EVERYSEC
    )
    assert starting(said(FULL, ALWAYS), "Nothing can") == []
    assert starting(said(MEMORY), "Nothing can") == []


def test_single_runs_and_no_lone_worker_are_said():
    once = said(FULL.assign(runs=1))
    assert "Each was run once, so no difference can be told from chance: use 3 repeats or more." in once
    many = said(FULL[FULL["workers"] > 1])
    assert "There is no closed model: it is made from what 1 worker does alone, which was not run." in many
    assert not [line for line in said(FULL) if "once" in line or "no closed model" in line]


def test_what_disturbed_it_what_was_left_out_and_an_early_end_are_said():
    lines = said(
        FULL, notes=("The machine was noisy.",), skipped={"redis_zset always": "there is no server"}, interrupted=True
    )
    assert lines[-2:] == ["The machine was noisy.", "redis_zset always was left out: there is no server"]
    assert "It was ended before its end: what had not run by then is missing." in lines


def test_nothing_that_was_run_is_nothing_to_say():
    assert answer(Contention(())) == ["Nothing was run to its end, so nothing can be said."]
    assert answer(Contention((), interrupted=True), rate=5)[0] == "Nothing was run to its end, so nothing can be said."


# -- the page --


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "contention.html"
    notes = ("The machine was noisy in 2 of 27 runs.",)
    far = arm("redis_zset everysec +1 ms", CLASSES[2], [800, 1_600, 3_200, 6_300], 0.0012, server_cpu=38e-6)
    whole = found(together(SQLITE, FULL, DELETE, EVERYSEC, ALWAYS, LIST, NONE, OFF, MEMORY, far), notes=notes)
    command = "qlab contention --report <page>"
    written = contention_report.write(whole, file, command=command, rate=200, peers=ALL_OF_PEERS, scans=WAITS)
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
    return written.read_text(encoding="utf-8")


def test_the_page_is_one_file_that_loads_nothing(page):
    told = Page(page)
    assert told.links == []
    assert all(load.startswith("data:image/png;base64,") for load in told.loads)
    assert len(told.loads) == len(set(told.loads)) == 4 * 3 + 5
    assert all(about.strip() for about in told.about)


def test_the_answer_comes_first_then_pictures_by_class_then_figures_and_how(page):
    words = Page(page).words
    places = [
        words.index(text)
        for text in (
            "At 200 jobs/s, to survive a power cut",
            "Of 2,400,000 jobs, no arm lost one",
            "While a scan stores 2,000 rows",
            "Who is the faster, by workers",
            "Which is the faster",
            "What durability costs",
            "What waits for a large scan",
            "Other queues",
            "What one worker foretells",
            "The figures",
            "How it was measured",
            "How it was made",
        )
    ]
    assert places == sorted(places)


def test_the_page_names_versions_disk_cores_settings_and_the_command(page):
    words = Page(page).words
    for told in (
        "2 cores", "CPython 3.11.7", "/tmp (ext4)", "SQLite 3.40.1, WAL, synchronous=NORMAL",
        "Redis 7.0.15, AOF always", "qlab contention --report <page>", "a process each",
        "job takes 1 ms of the processor",
        "321 s", "noisy in 2 of 27",
    ):  # fmt: skip
        assert told in words
    assert "<page>" not in page


def test_every_table_says_what_its_arms_survive(page):
    rest = page[page.index("The figures") :]
    captions = [part.split("</caption>")[0] for part in rest.split("<caption>")[1:]]
    assert len(captions) == 3 * len(CLASSES)
    assert "What one worker foretells" in page
    assert all(any(caption.endswith(f"all survive {survives}") for survives in CLASSES) for caption in captions)
    others = page[: page.index("The figures")].split("<table>")[1:]
    assert all("survive" in table or "scan" in table for table in others)


def test_a_folder_gets_the_pictures_and_the_figures_beside_the_page(tmp_path):
    written = contention_report.write(found(together(FULL, ALWAYS)), tmp_path / "report")
    assert written == tmp_path / "report" / "index.html"
    beside = {entry.name for entry in written.parent.iterdir()}
    assert beside == {
        "index.html", "contention.csv", "throughput-3.png", "fairness-3.png", "reserves-3.png", "crossover.png",
        "durability.png",
    }  # fmt: skip


def test_a_page_of_nothing_says_so(tmp_path):
    nothing = Contention((), skipped={"sqlite NORMAL, 1 worker": "it was killed <b>"}, interrupted=True)
    text = contention_report.write(nothing, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "makes this page again" not in text
    assert "Nothing was run to its end" in Page(text).words
    assert "<b>" not in text


def test_a_file_or_folder_that_is_something_else_is_refused(tmp_path):
    (tmp_path / "notes.html").write_text("mine")
    for odd in (tmp_path, tmp_path / "notes.html"):
        with pytest.raises(ValueError, match="is of no report|is no report"):
            contention_report.check(odd)
    contention_report.check(tmp_path / "page.html")
    contention_report.check(tmp_path / "folder")
    with pytest.raises(ValueError, match="is no report"):
        contention_report.write(found(together(FULL)), tmp_path / "notes.html")


def test_a_run_without_calls_or_waits_is_drawn_all_the_same(tmp_path):
    one = FULL[FULL["workers"] == 2].assign(runs=1, reserve_max=0.0, reserve_mean=0.0)
    text = contention_report.write(found(together(one)), tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Each was run once" in Page(text).words
