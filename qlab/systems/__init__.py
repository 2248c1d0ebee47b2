"""Queues as two applications decided to have them, ready made: set up in one line, and seen to behave as they say."""

from qlab.drivers.vellum import Progress, VellumDriver
from qlab.systems.catalogue import Vellum, vellum
from qlab.systems.web import Rustclamp, Settings, rustclamp

__all__ = ["Progress", "Rustclamp", "Settings", "Vellum", "VellumDriver", "rustclamp", "vellum"]
