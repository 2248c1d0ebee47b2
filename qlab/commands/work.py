"""`qlab work`: worker processes for a queue that a module makes."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

_AFTER = """\b
Exit codes:
  0  every job in hand was finished
  1  there is no such queue, or only one process sees it
  3  jobs in hand were given back unfinished
  4  jobs in hand were left: they come again when their reservations run out

\b
Example:
  qlab work shop:queue --workers 4 --grace 60
  qlab work shop:queue --url redis://10.0.0.5
"""


class _Seconds(click.FloatRange):
    """A number of seconds in a range, in which NaN is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return float(seconds)


@click.command(epilog=_AFTER)
@click.argument("target", metavar="MODULE:QUEUE")
@click.option(
    "--url",
    metavar="URL",
    help="The store to work instead of the module's own, as in redis://host; the module finds it in QLAB_URL.",
)
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="How many processes.")
@click.option(
    "--grace",
    type=_Seconds(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the job in hand may take after the first signal.",
)
@click.option(
    "--unfinished",
    type=click.Choice(["release", "expire"]),
    default="release",
    show_default=True,
    help="What becomes of it then: given back at once, or left until its reservation runs out.",
)
@click.option(
    "--poll",
    type=_Seconds(0, 86_400, min_open=True),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="After how long a worker asks again where nothing is due.",
)
@click.option(
    "--wait",
    type=click.Choice(["poll", "notify"]),
    default="poll",
    show_default=True,
    help="Whether the store is to wake workers before that, as Redis can.",
)
@click.option("--name", default="worker", show_default=True, help="What the log calls them: NAME-1, NAME-2, ...")
@click.option(
    "--recover/--no-recover",
    default=True,
    show_default=True,
    help="Whether to make ready first what has run out.",
)
@click.option("--force", is_flag=True, help="Recover every reservation: only where no other worker is alive.")
@click.option(
    "--metrics",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Serve metrics for Prometheus at this port of 127.0.0.1.",
)
@click.option("--log-payloads", is_flag=True, help="Show payloads in the log, which may hold secrets.")
@click.option("--quiet", is_flag=True, help="Log warnings and errors only.")
def work(
    target: str,
    url: str | None,
    workers: int,
    grace: float,
    name: str,
    recover: bool,
    force: bool,
    metrics: int | None,
    **setup: object,
) -> None:
    """Work a queue with processes of their own.

    The queue is the variable QUEUE of MODULE, which the current folder may hold. The first SIGTERM or Ctrl-C finishes
    the jobs in hand and takes no others. After the grace, or at the second signal, the processes end in the middle of
    their jobs; such a job keeps its attempt, and runs again from its beginning.

    On another machine the module may need no more than --url: the jobs come from there, and their handlers and rules
    from the queue. A password in it is seen by who lists processes; in QLAB_URL it is not.

    A worker process that dies is started again, at first after half a second, at most after 30.
    """
    from qlab import supervisor
    from qlab import target as named
    from qlab.log import to_stderr

    if force and not recover:
        raise click.UsageError("--force recovers, --no-recover does not: give one of them")
    named.parse(target)
    to_stderr(quiet=bool(setup["quiet"]))
    how = setup | {"target": target, "url": url, "recover": "force" if force else "expired" if recover else None}
    with _served(target, url, metrics):
        how["metrics"] = metrics is not None
        code = supervisor.Supervisor(how, count=workers, name=name, grace=grace).run()
    sys.exit(code)


@contextmanager
def _served(target: str, url: str | None, port: int | None) -> Iterator[None]:
    """Serve metrics meanwhile, where a port is given; the queue is opened here for its counts at the first scrape."""
    if port is None:
        yield
        return
    from qlab import prometheus
    from qlab import target as named
    from qlab.log import fields, log

    with prometheus.serve_processes(lambda: named.load(target, url), port=port) as endpoint:
        log.info("%s", fields(metrics=endpoint.url))
        yield
