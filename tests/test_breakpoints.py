"""A breakpoint in a handler that is stepped: the real debugger, with its commands typed on its input."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAM = """
from qlab import Policy, Queue, SimulatedClock

clock = SimulatedClock()
queue = Queue("sqlite:///jobs.db", clock=clock, policy=Policy(tries=2))

@queue.handler("plain")
def plain(job):
    size = len(job.payload)
    breakpoint()
    size += 1

@queue.handler("generator")
def generator(job):
    yield 2.0
    size = len(job.payload)
    breakpoint()
    yield 3.0

queue.dispatch({handler!r}, [1, 2])
print("OUTCOME", {step})
print("THEN", clock.now(), queue.counts())
"""
STEPS = {
    "work_once": "queue.work_once()",
    "drain": "queue.drain()[0]",
    "finish": "queue.finish(queue.reserve())",
}
ENDS_AT = {"plain": 0.0, "generator": 5.0}


def debugged(folder: Path, handler: str, step: str, *commands: str) -> str:
    """Run the program, type these commands at its breakpoint, and give what it printed."""
    script = folder / "step.py"
    script.write_text(PROGRAM.format(handler=handler, step=STEPS[step]))
    run = subprocess.run(
        [sys.executable, str(script)],
        input="".join(f"{command}\n" for command in commands),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONBREAKPOINT": "pdb.set_trace", "NO_COLOR": "1"},
    )
    return run.stdout


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("handler", ["plain", "generator"])
def test_the_debugger_stops_in_the_handler_and_the_job_goes_on_from_there(
    tmp_path: Path, handler: str, step: str
) -> None:
    said = debugged(tmp_path, handler, step, "p 'payload', job.payload, size", "p queue.counts()", "next", "continue")
    assert "('payload', [1, 2], 2)" in said
    assert "Counts(ready=0, delayed=0, reserved=1, failed=0)" in said
    assert f"OUTCOME Completed(job=1, name='{handler}', attempt=1, at={ENDS_AT[handler]})" in said
    assert f"THEN {ENDS_AT[handler]} Counts(ready=0, delayed=0, reserved=0, failed=0)" in said


def test_a_reservation_may_run_out_while_somebody_looks_around(tmp_path: Path) -> None:
    said = debugged(tmp_path, "plain", "work_once", "clock.advance(200)", "p queue.counts()", "continue")
    assert "Counts(ready=1, delayed=0, reserved=0, failed=0)" in said
    assert "OUTCOME Completed(job=1, name='plain', attempt=1, at=200.0)" in said


def test_leaving_the_debugger_fails_the_attempt_and_loses_no_job(tmp_path: Path) -> None:
    said = debugged(tmp_path, "plain", "work_once", "quit")
    assert "OUTCOME Retrying(job=1, name='plain', attempt=1, at=0.0, error='BdbQuit" in said
    assert "THEN 0.0 Counts(ready=0, delayed=1, reserved=0, failed=0)" in said
