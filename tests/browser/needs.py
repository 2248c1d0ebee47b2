"""What the tests of this folder need, and what happens where it is missing."""

import os
import shutil
from importlib.util import find_spec

import pytest

_PACKAGES = ("playwright", "axe_playwright_python", "anywidget", "jupyterlab", "notebook", "voila")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Find the browser."""
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def refuse_without() -> None:
    """Skip what is being collected where something is missing; under CI, fail."""
    reason = ""
    if absent := [name for name in _PACKAGES if find_spec(name) is None]:
        reason = f"not installed: {', '.join(absent)}; they come with the extra `browser`"
    elif chromium() is None:
        reason = f"none of {', '.join(_BROWSERS)} is on PATH"
    if reason and os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
