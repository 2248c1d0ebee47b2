"""What tests read off an HTML page."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """What a page asks a browser to load, its alternative texts and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.about: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        told = dict(attributes)
        (self.links if tag == "a" else self.loads).extend(told[name] or "" for name in ("src", "href") if name in told)
        if tag == "img":
            self.about.append(told.get("alt") or "")

    def handle_data(self, data: str) -> None:
        self.words += data
