"""The plainest stores that real workers contend for: a SQLite file, and a private Redis, each made for one run."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import quote

from qlab import drivers
from qlab.driver import Driver
from qlab.drivers.server import EmbeddedServer
from qlab.tokens import Tokens


class Arm(NamedTuple):
    """A store that workers contend for."""

    name: str
    driver: str
    private: bool = False


ARMS = {
    "memory": Arm("memory", "memory", private=True),
    "sqlite": Arm("sqlite NORMAL", "sqlite"),
    "redis_zset": Arm("redis_zset everysec", "redis_zset"),
    "redis_list": Arm("redis_list everysec", "redis_list"),
}
_FULL_NAMES = {arm.name: arm for arm in ARMS.values()}


def chosen(given: "Iterable[str | Arm] | str | Arm") -> tuple[Arm, ...]:
    """Give arms in order, each once."""
    found = []
    for each in [given] if isinstance(given, str | Arm) else given:
        if not isinstance(each, Arm) and each not in ARMS and each not in _FULL_NAMES:
            raise ValueError(f"there is no arm {each!r}: use one of {', '.join(_FULL_NAMES)}")
        found.append(each if isinstance(each, Arm) else ARMS.get(each) or _FULL_NAMES[each])
    if not found:
        raise ValueError("there is no arm to run: name at least one, such as 'sqlite NORMAL'")
    return tuple(dict.fromkeys(found))


class Store:
    """A store that was made for one run."""

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self._folder = Path(tempfile.mkdtemp(prefix="qlab-contention-"))
        self._server: EmbeddedServer | None = None
        try:
            if arm.driver.startswith("redis"):
                drivers.require_redis()
                self._server = EmbeddedServer(persistence="everysec")
            self.driver: Driver = drivers.open(self._address())
        except BaseException:
            self._remove()
            raise

    @property
    def url(self) -> str:
        """Its address."""
        return self.driver.url

    def _address(self) -> str:
        folder = quote(str(self._folder))
        if self._server is None:
            return "memory://" if self.arm.driver == "memory" else f"sqlite:///{folder}/jobs.db"
        layout = self.arm.driver.removeprefix("redis_")
        return f"{self._server.url}?layout={layout}&prefix=q{Tokens().next()[:6]}&failed_jobs=sqlite:///{folder}/f.db"

    def server_cpu(self) -> float:
        """Tell how many seconds of processor time the server has taken; 0 where there is none."""
        if self._server is None:
            return 0.0
        told = self.driver.facts()  # type: ignore[attr-defined]
        return float(told["used_cpu_sys"]) + float(told["used_cpu_user"])

    def disk_bytes(self) -> int:
        """Tell what the store's files take."""
        folders = [self._folder, *([self._server.folder] if self._server else [])]
        files = (file for folder in folders for file in folder.rglob("*"))
        return sum(file.stat().st_size for file in files if file.is_file() and not file.name.endswith("-shm"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.driver.close()
        finally:
            self._remove()

    def _remove(self) -> None:
        try:
            if self._server is not None:
                self._server.close()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
