"""Queues as two applications decided to have them, ready made: set up in one line, and seen to behave as they say."""

from qlab.drivers.paced import PacedDriver
from qlab.drivers.vellum import Progress, VellumDriver
from qlab.systems.catalogue import Vellum, vellum
from qlab.systems.outbox import Outbox, mail_outbox
from qlab.systems.web import Rustclamp, Settings, rustclamp

__all__ = [
    "Outbox",
    "PacedDriver",
    "Progress",
    "Rustclamp",
    "Settings",
    "Vellum",
    "VellumDriver",
    "mail_outbox",
    "rustclamp",
    "vellum",
]
