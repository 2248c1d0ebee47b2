"""What a checkup finds: one sentence, how bad it is, and what to do."""

from typing import NamedTuple

FINE, MIND, WRONG = "fine", "mind", "wrong"
"""How bad a finding is: as it should be; worth knowing; to be put right."""


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        about: What was looked at, in a word.
        level: `fine`, `mind` or `wrong`.
        says: What was found.
        advice: What to do; empty where all is fine.

    Example:
        >>> from qlab import doctor
        >>> finding = doctor("mysql://localhost").wrong[0]
        >>> finding.about, finding.level, finding.advice
        ('store', 'wrong', 'correct the address')
    """

    about: str
    level: str
    says: str
    advice: str = ""

    def row(self) -> dict[str, object]:
        """Tell the finding as one row of a table for people."""
        return {"": self.level, "about": self.about, "says": self.says, "what to do": self.advice}


def fine(about: str, says: str) -> Finding:
    """Find something as it should be."""
    return Finding(about, FINE, says)


def mind(about: str, says: str, advice: str) -> Finding:
    """Find something that is worth knowing."""
    return Finding(about, MIND, says, advice)


def wrong(about: str, says: str, advice: str) -> Finding:
    """Find something that is to be put right."""
    return Finding(about, WRONG, says, advice)
