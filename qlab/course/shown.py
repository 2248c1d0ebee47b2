"""What runs in a kernel whose notebook becomes a page: panels are noted where they are shown, and told at the end.

A panel on a page has no kernel, so it is told once, when all cells have run: as it stands in a notebook by then.
"""

from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display

PANEL = "application/vnd.qlab.panel+json"
"""The type of an output that stands for a panel: its name, or, where all are told, what each has by its name."""

_noted: dict[str, Any] = {}


def begin() -> None:
    """Note panels from now on instead of showing them, without importing what draws them."""
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        raise RuntimeError("this runs in a notebook's kernel")
    shell.display_formatter.ipython_display_formatter.for_type_by_name("qlab.widgets.panel", "Panel", _note)


def end() -> None:
    """Tell what each panel shows by now."""
    display({PANEL: {name: panel.kept() for name, panel in _noted.items()}}, raw=True)


def _note(panel: Any) -> None:
    """Note a panel, and with it its lab, which may have another panel under its name later."""
    there = (name for name, noted in _noted.items() if noted is panel)
    name = next(there, f"panel-{len(_noted) + 1}")
    _noted[name] = panel
    display({PANEL: name}, raw=True)
