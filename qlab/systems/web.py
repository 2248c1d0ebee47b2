"""ADR 0019: the queue of a web application, with two drivers, reservations and settings from the environment."""

import os
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

from qlab import drivers
from qlab.clock import Clock
from qlab.drivers.failed_jobs import file_of
from qlab.drivers.files import MEMORY
from qlab.errors import QlabError
from qlab.escape import without_password
from qlab.log import log
from qlab.policy import Policy
from qlab.queue import Queue
from qlab.systems.parts import AppDatabase, Jobs, System, register

_OURS = ("layout", "prefix", "failed_jobs")
_REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+embedded")


class Settings(NamedTuple):
    """What the environment says of the queue; an empty value counts as none.

    Attributes:
        connection: `QUEUE_CONNECTION`: `database` (by default) or `redis`.
        tries: `QUEUE_TRIES`: how many attempts a job has in all, 3 by default.
        retry_after: `QUEUE_RETRY_AFTER`: after how many seconds a reservation runs out, 90 by default: set it above the
            slowest job.
        workers: `QUEUE_WORKERS`: how many threads work beside the application, 1 by default; in production 0.
        database_url: `DATABASE_URL`: the application's SQLite database, `sqlite:///app.db` by default. Failed jobs are
            in it, and with the connection `database` the jobs too.
        redis_url: `REDIS_URL`: the server, `redis://127.0.0.1:6379/0` by default.
        redis_prefix: `REDIS_PREFIX`: what each key begins with, `app` by default; in production it must be said.
        app_env: `APP_ENV`: `production`, or anything else, `development` by default.

    Example:
        >>> from qlab.systems import Settings
        >>> settings = Settings.of({"DATABASE_URL": "sqlite:///shop.db", "QUEUE_WORKERS": "2"})
        >>> settings.workers, settings.retry_after, settings.url
        (2, 90.0, 'sqlite:///shop.db')
    """

    connection: str
    tries: int
    retry_after: float
    workers: int
    database_url: str
    redis_url: str
    redis_prefix: str
    app_env: str

    @property
    def production(self) -> bool:
        """Whether `APP_ENV` is production."""
        return self.app_env == "production"

    @property
    def database_path(self) -> str:
        """The file of the application's database."""
        return file_of(self.database_url)

    @property
    def url(self) -> str:
        """The address of the queue's store."""
        if self.connection == "database":
            return self.database_url
        failed_jobs = f"sqlite:///{quote(os.path.abspath(self.database_path))}"
        asked = {"layout": "list", "prefix": self.redis_prefix, "failed_jobs": failed_jobs}
        joint = "&" if "?" in self.redis_url else "?"
        return self.redis_url + joint + urlencode(asked, safe=":/", quote_via=quote)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Read an environment.

        Raises:
            ValueError: A value is none that the setting can have; the message names it and the way out.
        """
        said = {name: value.strip() for name, value in environment.items() if value.strip()}
        app_env = said.get("APP_ENV", "development").lower()
        production = app_env == "production"
        settings = cls(
            connection=said.get("QUEUE_CONNECTION", "database"),
            tries=_whole(said, "QUEUE_TRIES", 3, least=1),
            retry_after=_seconds(said, "QUEUE_RETRY_AFTER", 90.0),
            workers=_whole(said, "QUEUE_WORKERS", 0 if production else 1, least=0),
            database_url=_database(said.get("DATABASE_URL", "sqlite:///app.db")),
            redis_url=said.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
            redis_prefix=said.get("REDIS_PREFIX", "" if production else "app"),
            app_env=app_env,
        )
        if settings.connection not in ("database", "redis"):
            raise ValueError(f"QUEUE_CONNECTION is {settings.connection!r}: use database or redis")
        if settings.connection == "redis":
            _check_redis(settings)
        return settings


class Rustclamp(System):
    """An application with ADR 0019's queue; `rustclamp` makes one.

    Args:
        queue: The queue; it closes with the system.
        settings: What its environment says.
        database: Its own database.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.

    Attributes:
        queue: The queue: dispatch to it, step it, look into it.
        settings: What its environment says.
        database: Its own database, which handlers get as `job.context`.

    Example:
        >>> import tempfile
        >>> from contextlib import closing
        >>> from qlab.systems import rustclamp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with closing(rustclamp((), {"DATABASE_URL": f"sqlite:///{folder}/shop.db"})) as app:
        ...         _ = app.database.execute("CREATE TABLE images (id INTEGER, width INTEGER)")
        ...         app.settings.tries, app.queue.counts().depth
        (3, 0)
    """

    def __init__(self, queue: Queue, settings: Settings, database: AppDatabase, poll: float) -> None:
        super().__init__(queue, workers=settings.workers, poll=poll)
        self.settings = settings
        self.database = database

    def start(self) -> Self:
        """Run the application: start `QUEUE_WORKERS` workers beside it, or say it where none will and jobs wait."""
        if self.settings.workers == 0:
            self._warn()
        return super().start()

    def work(self, workers: int | None = None) -> None:
        """Only work, until Ctrl-C, whatever `QUEUE_WORKERS` says: what a service of its own does in production.

        Args:
            workers: How many threads, from 1; `QUEUE_WORKERS` by default, and 1 where that is 0.

        Raises:
            ValueError: `workers` is not from 1.
        """
        super().work((self.settings.workers or 1) if workers is None else workers)

    def close(self) -> None:
        """Stop the workers, and close the queue and the database."""
        super().close()
        self.database.close()

    def _warn(self) -> None:
        try:
            counts = self.queue.counts()
        except QlabError as error:
            log.warning("QUEUE_WORKERS is 0, and whether jobs wait cannot be told: %s", error)
            return
        if waiting := counts.ready + counts.delayed:
            log.warning(
                "QUEUE_WORKERS is 0 and %s wait: nothing runs them here; run `qlab work MODULE:QUEUE` as a service "
                "beside this one, or set QUEUE_WORKERS",
                "1 job" if waiting == 1 else f"{waiting} jobs",
            )


def rustclamp(
    jobs: Jobs = (), environment: Mapping[str, str] | None = None, *, clock: Clock | None = None, poll: float = 1.0
) -> Rustclamp:
    """Set up the queue of a web application as ADR 0019 has it.

    At least once, with reservations that run out; tries, a backoff of 10, 60 and 300 s, then `failed_jobs` in the
    application's database, whichever driver the jobs are on. Nothing works until `start` (or `with`), so that a test
    dispatches and then steps `app.queue.work_once(now)`. In production, with `queue = app.queue` in `shop.py`, the
    workers are `qlab work shop:queue`.

    Args:
        jobs: The handlers: `{"thumbnail": thumbnail}` or `[("thumbnail", thumbnail)]`. Each takes an `Attempt`, whose
            `context` is the application's database.
        environment: Where the settings are; the process's own by default. `Settings` tells them, with their defaults.
        clock: Where the time of jobs comes from; the machine's clock by default.
        poll: After how many seconds a worker asks again where nothing is due, give or take half of it.

    Raises:
        ValueError: A setting has a value that it cannot have, or a name is there twice; nothing was opened.
        UnusableStore: The database cannot hold the queue.
        DriverUnavailable: The server does not answer.

    Example:
        >>> import tempfile
        >>> from contextlib import closing
        >>> from qlab.systems import rustclamp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     environment = {"DATABASE_URL": f"sqlite:///{folder}/shop.db"}
        ...     with closing(rustclamp({"thumbnail": lambda job: None}, environment)) as app:
        ...         _ = app.queue.dispatch("thumbnail", {"image": 7})
        ...         app.queue.work_once().says
        'job 1 is done'
    """
    settings = Settings.of(os.environ if environment is None else environment)
    policy = Policy(tries=settings.tries, retry_after=settings.retry_after)
    with ExitStack() as opened:
        driver = opened.enter_context(drivers.open(settings.url))
        database = opened.enter_context(closing(AppDatabase(settings.database_path)))
        queue = Queue(driver, policy=policy, clock=clock, context=database)
        register(queue, jobs)
        app = Rustclamp(queue, settings, database, poll)
        opened.pop_all()
    return app


def _whole(said: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = said.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise ValueError(f"{name} is {text!r}: use a whole number from {least}")
    return int(text)


def _seconds(said: Mapping[str, str], name: str, default: float) -> float:
    text = said.get(name, str(default))
    try:
        seconds = float(text)
        Policy(retry_after=seconds)
    except ValueError:
        raise ValueError(f"{name} is {text!r}: use a number of seconds above your slowest job's, such as 90") from None
    return seconds


def _database(url: str) -> str:
    try:
        path = file_of(url)
    except ValueError as error:
        raise ValueError(f"DATABASE_URL: {error}") from None
    if path == MEMORY:
        raise ValueError(
            f"DATABASE_URL is {url!r}: a database in memory is one connection's, and the application and its queue "
            "have several; name a file, as in sqlite:///app.db"
        )
    return url


def _check_redis(settings: Settings) -> None:
    parts, shown = urlsplit(settings.redis_url), without_password(settings.redis_url)
    if parts.scheme not in _REDIS_SCHEMES:
        raise ValueError(f"REDIS_URL is {shown!r}: write redis://host:6379/0, or rediss:// or unix://")
    if said := [name for name in _OURS if any(part.startswith(f"{name}=") for part in parts.query.split("&"))]:
        raise ValueError(
            f"REDIS_URL is {shown!r}: leave {', '.join(said)} out; the prefix is REDIS_PREFIX, and failed jobs are in "
            "DATABASE_URL"
        )
    if not settings.redis_prefix:
        raise ValueError(
            "APP_ENV is production and REDIS_PREFIX is not set: applications that share a Redis would run each other's "
            "jobs; set REDIS_PREFIX to a name that no other application has"
        )
