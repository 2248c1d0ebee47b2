"""Queues as two applications decided to have them, ready made: set up in one line, and seen to behave as they say."""

from qlab.systems.web import Rustclamp, Settings, rustclamp

__all__ = ["Rustclamp", "Settings", "rustclamp"]
