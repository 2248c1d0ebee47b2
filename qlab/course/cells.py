"""What the cells of an executed notebook are on a page."""

import re
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from nbconvert.filters import Highlight2HTML, ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from qlab.course.exercises import Notebook
from qlab.course.shown import PANEL
from qlab.escape import html

_LINK = re.compile(r'href="([^":/?#]+)\.ipynb(?=["#])')
_NAMED = re.compile(r"<code>([^<]+?)(?:\.ipynb)?</code>")
_EMPTY = re.compile(r"<th([^>]*)></th>")
_SKIPPED = re.compile(r"^Skipped\b.*", re.MULTILINE)

Shown = dict[str, Any]
"""A cell or an output as the page's template takes it: its `kind`, and what that kind has."""


class About(NamedTuple):
    """What a notebook's first cell says of it; empty where it does not.

    Attributes:
        title: Its title, as text.
        question: Its question, as HTML.
        need: What it needs, the time that it takes among it, as HTML.
    """

    title: str
    question: str
    need: str


def about(notebook: Notebook, name: str) -> About:
    """Read a notebook's first cell: a title, a question, and paragraphs of which one begins with `**You need**`.

    Args:
        notebook: The notebook.
        name: Its title where it has none.
    """
    first = notebook.cells[0].source if notebook.cells and notebook.cells[0].cell_type == "markdown" else ""
    parts = [part.strip() for part in re.split(r"\n\s*\n", first)]
    titles = [part.removeprefix("# ") for part in parts if part.startswith("# ")]
    rest = [part for part in parts if part and not part.startswith("#")]
    question = next((part for part in rest if not part.startswith("**")), "")
    need = next((part for part in rest if part.startswith("**You need**")), "")
    return About(titles[0] if titles else name, prose(question), prose(need))


def prose(text: str, pages: Collection[str] = ()) -> str:
    """Write Markdown as HTML.

    Args:
        text: The Markdown.
        pages: The notebooks, without ending, that have a page: links to them, and their names, lead there.
    """

    def to_page(found: "re.Match[str]", form: str) -> str:
        return form.format(found[1]) if found[1] in pages else found[0]

    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    written = MarkdownWithMath(renderer=renderer).render(text)
    linked = _LINK.sub(lambda link: to_page(link, 'href="{}.html'), written)
    return _headed(_NAMED.sub(lambda name: to_page(name, '<a href="{0}.html"><code>{0}</code></a>'), linked))


def _headed(tables: str) -> str:
    """Make cells of headings that say nothing, such as pandas has above an index."""
    return _EMPTY.sub(r"<td\1></td>", tables)


def cells(notebook: Notebook, panels: Mapping[str, Any], pages: Collection[str] = ()) -> Iterator[Shown]:
    """Give the cells that a page shows.

    Args:
        notebook: An executed notebook.
        panels: What its panels show, by name.
        pages: As `prose` takes it.
    """
    code = Highlight2HTML(pygments_lexer="python3")
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            yield {"kind": "prose", "html": prose(cell.source, pages)}
        elif cell.cell_type == "code" and cell.source:
            outputs = [shown for output in cell.outputs if (shown := _output(output, panels))]
            yield {"kind": "code", "id": cell.get("id", place), "html": code(cell.source), "outputs": outputs}


def skipped(notebook: Notebook) -> list[str]:
    """Give the lines in which an executed notebook says what it has skipped."""
    texts = (
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stdout"
    )
    return [line for text in texts for line in _SKIPPED.findall(text)]


def _output(output: Any, panels: Mapping[str, Any]) -> Shown | None:
    if output.output_type == "stream":
        text = output.text.rstrip()
        kind = "skipped" if _SKIPPED.match(text) else output.name
        return {"kind": kind, "html": ansi2html(text)} if text else None
    if output.output_type == "error":
        return {"kind": "stderr", "html": ansi2html("\n".join(output.traceback))}
    return _data(output.data, output.metadata, panels)


def _data(data: Mapping[str, Any], metadata: Mapping[str, Any], panels: Mapping[str, Any]) -> Shown | None:
    """Choose the form of a result that a page shows best."""
    if PANEL in data:
        return {"kind": "panel", "name": data[PANEL], **panels[data[PANEL]]}
    if "text/html" in data:
        return {"kind": "html", "html": _headed(data["text/html"])}
    for kind in ("image/png", "image/jpeg", "image/svg+xml"):
        if kind in data:
            how = metadata.get(kind, {})
            size = {name: how[name] for name in ("width", "height") if name in how}
            drawn = data[kind].strip()
            if kind == "image/svg+xml":  # as a picture, in which no script runs
                drawn = b64encode(drawn.encode()).decode()
            source = f"data:{kind};base64,{drawn}"
            return {"kind": "picture", "source": source, "about": how.get("alt", "A picture"), "size": size}
    if "text/markdown" in data:
        return {"kind": "html", "html": prose(data["text/markdown"])}
    text = data.get("text/plain", "")
    return {"kind": "result", "html": html(text)} if text else None
