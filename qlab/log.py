"""What qlab says in the log, under the name `qlab`: one line each time, and a log that goes wrong stops no worker."""

import json
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVarTuple

from qlab.escape import one_line
from qlab.interrupts import let_through

if TYPE_CHECKING:
    Adapter = logging.LoggerAdapter[logging.Logger]
else:
    Adapter = logging.LoggerAdapter

News = TypeVarTuple("News")


class Log(Adapter):
    """A logger whose handlers and filters may raise what they like: it is shown on stderr, and work goes on."""

    def log(self, level: int, msg: object, *args: object, **how: Any) -> None:
        """Log, as a logger does."""
        try:
            safe = (one_line(arg) if isinstance(arg, str) else arg for arg in args)
            super().log(level, msg, *safe, **how | {"stacklevel": 3})
        except BaseException as error:  # noqa: BLE001 - a log that goes wrong stops no worker
            let_through(error)
            traceback.print_exception(error, file=sys.stderr)


def to_stderr(*, quiet: bool) -> None:
    """Show the log on the standard error, unless the application has made other arrangements.

    Args:
        quiet: Whether to show warnings and errors only.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logger = logging.getLogger("qlab")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING if quiet else logging.INFO)


def tell_each(listeners: Sequence[Callable[[*News], object]], *news: *News, wrong: str) -> None:
    """Tell listeners something, each of them whatever another one raises.

    Args:
        listeners: Whom.
        news: What they are told.
        wrong: What the log says where one of them raises.
    """
    for listener in tuple(listeners):
        try:
            listener(*news)
        except Exception:  # it is somebody else's code, and no job is to hang on it
            log.exception("%s", wrong)


def fields(**values: object) -> str:
    """Write values as `key=value key="another value"`; those that are None are left out."""
    return " ".join(f"{key}={_value(value)}" for key, value in values.items() if value is not None)


def _value(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    plain = text and text.isprintable() and not any(character in text for character in ' ="')
    return text if plain else json.dumps(text, ensure_ascii=False)


log = Log(logging.getLogger("qlab"), {})
