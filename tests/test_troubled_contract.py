"""The contract's tests once more, on a driver that stands before another one: without trouble it is that one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from conftest import stores
from test_contract import *  # noqa: F403 - its tests, which this module's fixture gives another driver

from qlab import drivers
from qlab.driver import Driver
from qlab.drivers.troubled import Troubled

store = stores("memory", "memory-arrival", "sqlite-memory")


@pytest.fixture
def open_again(address: str) -> Iterator[Callable[[], Driver]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(Troubled(drivers.open(address), ()))
