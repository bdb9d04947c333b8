"""What leaves this machine when asked: a run on the hub, its figures to trackers."""

from leakbound.publishing.pushing import Upload, prepare, push
from leakbound.publishing.tracking import TRACKERS, require_trackers, track

__all__ = ["TRACKERS", "Upload", "prepare", "push", "require_trackers", "track"]
