"""Text made safe to keep and to show: payloads, names and errors come from anywhere."""

import html as _html
import re
import traceback as _traceback

_ERROR_LIMIT = 1_000
_TRACEBACK_LIMIT = 64 * 1024


def storable(text: str, limit: int) -> str:
    """Make text fit for every store: no lone surrogate, no NUL, at most `limit` characters (the middle is cut)."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters cut …\n{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def error_text(error: BaseException) -> str:
    """Tell an exception in one line, `ValueError: boom`, whatever its own text does when asked for."""
    name = "an exception"
    try:
        name = str(type(error).__name__)
        said = str(error)
    except BaseException as second:  # noqa: BLE001 - an exception's text is the handler's code, and may raise anything
        said = f"(its text cannot be shown: {type.__repr__(type(second))[8:-2]})"
    return storable(f"{name}: {said}" if said else name, _ERROR_LIMIT)


def traceback_text(error: BaseException) -> str:
    """Tell an exception with its traceback, at most 64 KiB of it."""
    try:
        lines = _traceback.format_exception(error)
    except BaseException:  # noqa: BLE001 - formatting asks the exception for its text, which may raise anything
        frames = BaseException.__dict__["__traceback__"].__get__(error)  # its class may hide its own
        lines = [*_traceback.format_tb(frames), error_text(error)]
    return storable("".join(lines), _TRACEBACK_LIMIT)


def html(value: object) -> str:
    """Escape a value for HTML text and attributes; control characters are made visible."""
    return _html.escape(printable(str(value)))


def printable(text: str) -> str:
    """Make control characters visible, so that no text can move a terminal's cursor or change its colours."""
    return "".join(c if c.isprintable() or c == "\n" else _visible(c) for c in text)


def one_line(text: str) -> str:
    """Make control characters and line ends visible, so that no text can forge a line of a log."""
    return "".join(c if c.isprintable() else _visible(c) for c in text)


def without_password(url: str) -> str:
    """Write an address for people: whatever may be a password in it becomes `***`, also where it is mistyped."""
    safe = re.sub(r"(?i)((?:^|[?&])[^=&]*pass\w*=)[^&]*", r"\1***", url)
    if safe.startswith("sqlite:///") and "://" not in safe[10:]:
        return safe
    return re.sub(r"(?s)^(\w[\w+]*:?/{0,2})?([^:/@]*)(:?).*@", _masked, re.sub(r"(?s)(=\w+://).*@", r"\1***@", safe))


def _masked(found: "re.Match[str]") -> str:
    scheme, user, _ = found.groups(default="")
    return f"{scheme}{user}:***@" if scheme.endswith("/") else "***@"


def csv_cell(value: object) -> object:
    """Keep a spreadsheet from reading text as a formula: a leading quote before `= + - @` and control characters."""
    if isinstance(value, str) and value and (value[0] in "=+-@" or not value[0].isprintable()):
        return "'" + value
    return value


def shortened(text: str, limit: int = 60) -> str:
    """Cut text to `limit` characters for a row of a table, with an ellipsis; line ends become spaces."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _visible(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
