"""A board with many jobs: how many frames a second it draws is printed, not asserted."""

from collections.abc import Callable

from browser.pages import Notebook, ask, lab

START = """() => {
  window.qlabFrames = [];
  const note = (moment) => { window.qlabFrames.push(moment); window.qlabFrame = requestAnimationFrame(note); };
  requestAnimationFrame(note);
}"""
STOP = """() => {
  cancelAnimationFrame(window.qlabFrame);
  return window.qlabFrames.slice(1).map((moment, i) => moment - window.qlabFrames[i]);
}"""

TWENTY_A_SECOND = """
from qlab.clock import monotonic, pause
began = monotonic()
for number in range(40):
    lab.step_all()
    lab.advance(0.5)
    pause(max(0.0, began + (number + 1) / 20 - monotonic()))
print(round(monotonic() - began, 2))
"""


def test_draws_thousands_of_jobs_that_change_twenty_times_a_second(open_notebook: Callable[..., Notebook]) -> None:
    notebook = open_notebook(lab("sqlite"))
    notebook.run_all()
    board = notebook.board()
    there = done = 0
    for jobs in (1_000, 5_000):
        board.dispatch("pay", count=jobs - there)
        board.shows(ready=jobs - done)
        ask(notebook.page, START)
        seconds = notebook.kernel(TWENTY_A_SECOND)
        there, done = jobs, done + 80
        board.shows(ready=jobs - done, done=done)
        frames = sorted(ask(notebook.page, STOP))
        assert frames
        middle, most, nearly_all = (frames[len(frames) * share // 100] for share in (50, 95, 99))
        print(  # noqa: T201 - a record for people
            f"{jobs} jobs, 40 updates in {seconds} s (ideal 2.0 s): {len(frames)} frames of {middle:.0f} ms, "
            f"95 % below {most:.0f} ms, 99 % below {nearly_all:.0f} ms, worst {frames[-1]:.0f} ms"
        )
