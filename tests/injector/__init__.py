"""Spoils one file event of a command: kills it there, fails the call, or sends a signal."""

from injector.events import ACTIONS, Event, Fault, applies, durable_faults
from injector.server import CannotPreloadError, Server, Told, library

__all__ = [
    "ACTIONS",
    "CannotPreloadError",
    "Event",
    "Fault",
    "Server",
    "Told",
    "applies",
    "durable_faults",
    "library",
]
