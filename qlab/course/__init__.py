"""The course: notebooks with exercises, whose answers are checked with a hint, and its static pages."""

from qlab.course.checking import Checked, check

__all__ = ["Checked", "check"]
