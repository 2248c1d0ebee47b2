"""What people do to a queue with the board, and what it says then."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from browser.pages import LIMIT, Notebook, lab

Open = Callable[..., Notebook]

DRIVERS = ("sqlite", "redis", "redis_list", "memory")


def test_steps_five_times_on_each_driver(open_notebook: Open, subtests: pytest.Subtests) -> None:
    notebook = open_notebook(*(lab(driver, name=driver) for driver in DRIVERS))
    notebook.run_all()
    for cell, driver in enumerate(DRIVERS):
        with subtests.test(driver):
            board = notebook.board(cell=cell)
            board.dispatch(count=5)
            board.shows(ready=5, done=0)
            for steps in range(1, 6):
                board.press("Step worker 1")
                board.shows(ready=5 - steps, done=steps)


def test_makes_a_job_run_twice_and_says_why(open_notebook: Open) -> None:
    notebook = open_notebook(lab("sqlite"))
    notebook.run_all()
    board = notebook.board()
    board.dispatch("pay", payload='{"amount": 5}')
    board.press("Reserve worker 1", "+60 s", "+60 s", "Step worker 2")
    board.tells("worker 1's reservation ran out at 90 s")
    board.shows(done=1)
    board.press("Complete worker 1")
    board.tells("worker 1 came too late to complete it, because worker 2 reserved it at 120 s")
    board.tells("job 1 ran twice: worker 2's run took effect at 120 s, worker 1's again at 120 s")
    expect(board.lane("done").get_by_role("listitem")).to_contain_text("done, ran twice")
    board.toggle("Ledger")
    board.tells(re.compile(r"job 1\b.*\b(twice|2 times|2 ×|double)", re.IGNORECASE))
    board.tells(re.compile(r"\b10\b"))
    assert notebook.kernel("print(lab.sides[0].ledger.doubled, lab.sides[0].ledger.balance)") == "[1] 10"


def test_stops_after_the_run_of_a_slow_handler(open_notebook: Open) -> None:
    slow = """
import threading
begun, shut = threading.Event(), threading.Event()
@lab.handler("slow for real")
def wait(job):
    begun.set()
    shut.wait(1)  # seconds
"""
    notebook = open_notebook(lab("memory", more=slow))
    notebook.run_all()
    board = notebook.board()
    board.dispatch("slow for real", count=20)
    board.shows(ready=20)
    board.press("Run")
    notebook.wait_for("begun.is_set()")
    expect(board.button("Stop")).to_be_enabled()
    board.press("Stop")
    expect(board.button("Run")).to_be_enabled()
    assert notebook.kernel("print(lab.board().wait(25), lab.trace.at(lab.now).counts().ready > 10)") == "True True"


def test_tells_what_went_wrong_and_goes_on(open_notebook: Open, subtests: pytest.Subtests) -> None:
    raising = """
@lab.handler("burst")
def burst(job):
    raise ValueError("the tyre burst")
"""
    notebook = open_notebook(lab("redis", more=raising), "1 + 1")
    notebook.run_all()
    board = notebook.board()

    with subtests.test("a handler that raises"):
        board.dispatch("burst", count=2)
        board.press("Step worker 1", "Step worker 1")
        board.tells(re.compile("the tyre burst"))
        board.shows(delayed=2)
        for _ in range(2):
            board.press("Jump to next event", "Step all")
        board.shows(failed=2, ready=0, delayed=0)
        board.press("Retry job 1")
        board.shows(failed=1, ready=1)
        board.press("Forget job 2")
        board.shows(failed=0, ready=1)

    with subtests.test("a store that is gone"):
        notebook.kernel("server = lab._stores._servers[0]\nserver.kill()")
        board.press("Step worker 1")
        problem = board.root.get_by_role("alert").filter(visible=True, has_text=re.compile(r"\w"))
        expect(problem).to_contain_text(re.compile("server|redis|reach|connect", re.IGNORECASE), timeout=LIMIT * 1000)
        notebook.run_cell(1)
        notebook.kernel("server.restart()")
        board.dispatch()
        board.press("Step worker 1")
        expect(problem).to_have_count(0, timeout=LIMIT * 1000)
        assert notebook.kernel("lab.board().wait(20)\nprint(*lab.queue.counts())") == "0 0 0 0"
        board.tells("job 3 is lost: the server kept it in memory only")

    with subtests.test("a server that the board itself restarts"):
        board.dispatch(count=3)
        board.press("Reserve worker 1", "Restart server")
        board.tells("jobs 2, 3, 4 are lost: the server kept them in memory only")
        board.tells("Lost with the store: jobs 3, 2, 3, 4")
        board.shows(ready=0)
        board.dispatch()
        board.press("Complete worker 1")
        board.tells(re.compile("worker 1 came too late to complete it, because it was lost"))


def test_goes_back_in_time_and_branches(open_notebook: Open) -> None:
    notebook = open_notebook(lab("sqlite"))
    notebook.run_all()
    board = notebook.board()
    board.dispatch(count=3)
    board.press("Step worker 1", "Step worker 1")
    board.shows(ready=1, done=2)
    board.press("Step back")
    board.shows(done=1)
    scrubber = board.field("Time travel")
    scrubber.press("Home")
    board.shows(ready=0, done=0)
    for _ in range(3):
        scrubber.press("ArrowRight")
    board.shows(ready=3, done=0)
    board.press("Step forward", "Step forward")
    board.shows(ready=2, done=1)
    board.press("Branch here")
    branch = notebook.board(nth=1)
    branch.shows(ready=2, done=1)
    branch.press("Crash worker 1")
    board.press("Now")
    board.shows(ready=1, done=2)
    board.press("Step back", "Branch here")  # in the middle of a step: the job is only reserved
    other = notebook.board(nth=2)
    other.tells("holds job 2")
    other.shows(ready=1, done=1)
    other.press("Run")
    other.shows(ready=0, done=3)
    names = [one.root.get_attribute("aria-label") for one in (board, branch, other)]
    assert names == [
        "qlab board, lab, on sqlite",
        "qlab board, lab, branched at 5, on sqlite",
        "qlab board, lab, branched at 6, on sqlite",
    ]


def test_shows_two_drivers_side_by_side_and_where_they_differ(open_notebook: Open) -> None:
    notebook = open_notebook(lab("['sqlite', 'redis_list']"))
    notebook.run_all()
    board = notebook.board()
    board.dispatch("pay", delay="10")
    board.press("+10 s", "+10 s")
    board.dispatch("pay")
    board.toggle("Statements")
    board.press("Reserve worker 1")
    board.tells(re.compile("redis_list goes by the order in which jobs came into its list.* job 2"))
    board.tells(re.compile("UPDATE|SELECT"))
    board.tells(re.compile(r"redis\.call"))


def test_has_a_control_for_each_method(open_notebook: Open, subtests: pytest.Subtests) -> None:
    notebook = open_notebook(lab("sqlite"))
    notebook.run_all()
    board = notebook.board()

    with subtests.test("payload checked as it is typed"):
        board.field("Payload").fill('{"amount": ')
        expect(board.field("Payload")).to_have_attribute("aria-invalid", "true")
        board.field("Payload").fill('{"amount": 3}')
        expect(board.field("Payload")).not_to_have_attribute("aria-invalid", "true")

    with subtests.test("a number that cannot be is refused where it stands"):
        for name, wrong, right in (("Delay (s)", "-5", "0"), ("How many", "0", "1"), ("How many", "", "1")):
            board.field(name).fill(wrong)
            board.press("Dispatch")
            board.tells(re.compile(rf"^{re.escape(name)}: use "))
            expect(board.field(name)).to_be_focused()
            expect(board.field(name)).to_have_attribute("aria-invalid", "true")
            board.field(name).fill(right)
            expect(board.field(name)).not_to_have_attribute("aria-invalid", "true")
        board.shows(ready=0, delayed=0)

    with subtests.test("delay and jump"):
        board.dispatch("pay", delay="30")
        board.shows(delayed=1)
        board.press("Jump to next event")
        board.shows(delayed=0, ready=1)

    with subtests.test("crash and pause, and the undo of each"):
        board.press("Reserve worker 1", "Pause worker 1")
        board.tells("worker 1 is paused with job 1 in hand; its reservation still runs out at 120 s")
        board.press("Resume worker 1", "Crash worker 1")
        board.tells("worker 1 crashed with job 1 in hand")
        board.press("Restart worker 1")
        board.tells("worker 1 was restarted and knows nothing of job 1")
        board.press("Crash worker 2")
        board.tells("worker 2 crashed with no job in hand; nothing is lost")
        board.press("Restart worker 2", "Pause worker 2", "Resume worker 2")
        board.press("Jump to next event", "Step worker 2")
        board.shows(done=1)

    with subtests.test("policy and its undo"):
        board.toggle("Policy")
        board.field("Tries").fill("1")
        board.field("Backoff (s)").fill("5, 7")
        board.field("Reservation (s)").fill("20")
        board.press("Apply policy")
        expect(board.button("Undo policy")).to_be_enabled()
        told = "print(lab.policy.tries, [*map(float, lab.policy.backoff)], float(lab.policy.retry_after))"
        assert notebook.kernel(told) == "1 [5.0, 7.0] 20.0"
        board.press("Undo policy")
        expect(board.field("Tries")).to_have_value("3")
        assert notebook.kernel(told) == "3 [10.0, 60.0, 300.0] 90.0"

    with subtests.test("table of jobs"):
        board.toggle("Jobs")
        board.dispatch("broken", payload='{"order": 17}')
        board.field("State").select_option("ready")
        rows = board.root.get_by_role("table").get_by_role("row")
        expect(rows).to_have_count(2)  # its head, too
        board.press("Payload of job 2")
        board.tells(re.compile('"order": ?17'))
        board.field("State").select_option("all")
        board.press("attempts")
        expect(rows.nth(1)).to_contain_text("broken")
        board.press("Step worker 1")
        board.toggle("Jobs")

    with subtests.test("restart"):
        board.dispatch(count=2)
        board.press("Reserve worker 1", "Restart process")
        board.shows(ready=1)
        board.tells("worker 1 crashed with job 3 in hand")

    with subtests.test("scenario, run and reset"):
        board.toggle("Scenario")
        board.field("Scenario").select_option("all_kinds")
        board.press("Play")
        board.press("Run")
        expect(board.button("Stop")).to_be_enabled()
        board.press("Stop")
        board.press("Reset")
        board.shows(done=0)
        assert notebook.kernel("lab.board().wait(20)\nprint(lab.now)") == "0.0"

    with subtests.test("save and load"):
        board.toggle("Files")
        board.dispatch(count=2)
        board.press("Step worker 1")
        with notebook.page.expect_download() as saved:
            board.press("Save")
        board.press("Reset")
        board.shows(ready=0, done=0)
        with notebook.page.expect_file_chooser() as asked:
            board.press("Load")
        asked.value.set_files(saved.value.path())
        board.shows(ready=1, done=1)

    with subtests.test("export"):
        for form, start in (("HTML", b"<!doctype html>"), ("CSV", b"driver,"), ("SVG", b"<?xml"), ("PNG", b"\x89PNG")):
            with notebook.page.expect_download() as kept:
                board.press(f"Export {form}")
            assert kept.value.path().read_bytes()[: len(start)].lower() == start.lower()
