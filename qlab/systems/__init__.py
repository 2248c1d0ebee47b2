"""Queues as two applications decided to have them, ready made: set up in one line, and seen to behave as they say."""

from qlab.drivers.in_process import InProcessDriver
from qlab.drivers.paced import PacedDriver
from qlab.drivers.vellum import Progress, VellumDriver
from qlab.systems.catalogue import Vellum, vellum
from qlab.systems.outbox import Outbox, mail_outbox
from qlab.systems.process import InProcess, in_process, worker_service
from qlab.systems.web import Rustclamp, Settings, rustclamp

__all__ = [
    "InProcess",
    "InProcessDriver",
    "Outbox",
    "PacedDriver",
    "Progress",
    "Rustclamp",
    "Settings",
    "Vellum",
    "VellumDriver",
    "in_process",
    "mail_outbox",
    "rustclamp",
    "vellum",
    "worker_service",
]
