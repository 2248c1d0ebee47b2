"""What can be measured of a board's looks: the contrast of its text in a picture of it, and axe's rules."""

import io
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from playwright.sync_api import Locator

from browser.pages import LIMIT, ask, settle

_TEXTS = """(root) => {
  const origin = root.getBoundingClientRect(), found = [];
  const clipped = (element, box) => {
    const middle = box.y + box.height / 2;
    for (let parent = element; parent !== root; parent = parent.parentElement) {
      const frame = parent.getBoundingClientRect();
      const clips = getComputedStyle(parent).overflow !== "visible";
      if (clips && (middle < frame.top || middle > frame.bottom || box.left >= frame.right)) return true;
    }
    return false;
  };
  const note = (element, text, box) => {
    const seen = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const shown = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!shown || clipped(element, box) || box.width < 2 || box.height < 4) return;
    if (!(element.contains(seen) || seen?.contains(element))) return;
    if (element.closest(":disabled, [aria-disabled=true]")) return;
    const style = getComputedStyle(element);
    found.push({ text, x: box.x - origin.x, y: box.y - origin.y, width: box.width, height: box.height,
      size: parseFloat(style.fontSize), weight: Number(style.fontWeight) });
  };
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data.trim();
    if (!text || walk.currentNode.parentElement.closest("option, style, script")) continue;
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    note(walk.currentNode.parentElement, text, range.getClientRects()[0] || new DOMRect());
  }
  for (const field of root.querySelectorAll("select, input:not([type=range], [type=checkbox], [type=radio])")) {
    if (field.value) note(field, field.value, field.getBoundingClientRect());
  }
  return found;
}"""


class Reading(NamedTuple):
    """How readable a text is.

    Attributes:
        text: The text.
        contrast: Its contrast with what is behind it, from 1 to 21, as WCAG 2 defines it.
        needed: What WCAG 2 asks for at its size.
    """

    text: str
    contrast: float
    needed: float


def readings(root: Locator) -> list[Reading]:
    """Measure the contrast of every visible text of an element in a picture of it, whatever drew it.

    What is behind a text is the commonest colour of its box; the text is what stands out most from it. A control that
    is disabled does not count.
    """
    settle(root.page)
    root.scroll_into_view_if_needed()
    texts = ask(root, _TEXTS)
    picture = np.asarray(Image.open(io.BytesIO(root.screenshot(timeout=LIMIT * 1000))).convert("RGB"))
    scale = picture.shape[1] / (root.bounding_box() or {"width": 1})["width"]
    return [_reading(told, picture, scale) for told in texts]


def unreadable(root: Locator) -> list[Reading]:
    """Find the texts of an element whose contrast is too low; there must be some text to look at."""
    found = readings(root)
    assert found, "no text to look at"
    return [reading for reading in found if reading.contrast < reading.needed]


def _reading(told: dict[str, Any], picture: "np.ndarray", scale: float) -> Reading:
    left, top = (max(0, round(told[side] * scale)) for side in ("x", "y"))
    right, bottom = round((told["x"] + told["width"]) * scale), round((told["y"] + told["height"]) * scale)
    light = _luminance(picture[top:bottom, left:right].reshape(-1, 3))
    large = told["size"] >= 24 or (told["size"] >= 18.66 and told["weight"] >= 700)
    needed = 3.0 if large else 4.5
    if not light.size:
        return Reading(told["text"], 1.0, needed)
    values, often = np.unique(light.round(3), return_counts=True)
    behind = values[often.argmax()]
    contrast = np.maximum((light + 0.05) / (behind + 0.05), (behind + 0.05) / (light + 0.05))
    return Reading(told["text"], round(float(contrast.max()), 2), needed)


def _luminance(colours: "np.ndarray") -> "np.ndarray":
    parts = colours / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


class Audit(NamedTuple):
    """What axe found.

    Attributes:
        violations: Each rule that is broken, with what breaks it.
        passes: The rules that were looked at and kept.
    """

    violations: list[str]
    passes: list[str]


def audit(root: Locator) -> Audit:
    """Let axe look at an element, and at nothing else of its page."""
    settle(root.page)
    if not ask(root.page, "() => Boolean(window.axe)"):
        axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
        ask(root.page, f"() => {{ {axe}\n }}")
    told = ask(
        root,
        """(root) => axe.run(root, { resultTypes: ["violations", "passes"] }).then(({ violations, passes }) => ({
          violations: violations.map(({ id, impact, nodes }) =>
            `${id} (${impact}): ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join(" | ")}`),
          passes: passes.map(({ id }) => id),
        }))""",
    )
    return Audit(told["violations"], told["passes"])
