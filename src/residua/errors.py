"""What can go wrong, as a tree.

    ResiduaError
    ├── InputError        wrong use or bad input: nothing was started         (exit status 2)
    │   └── MixError      a run directory that another command made           (exit status 2)
    ├── ModelError        a model, tokenizer or checkpoint that cannot be used (exit status 2)
    └── IncompleteError   part of the work is missing; run the same again      (exit status 3)

Every message names the thing, the value it had and the remedy.
"""

from __future__ import annotations


class ResiduaError(Exception):
    """Base of every error that residua raises on purpose."""

    exit_status = 1


class InputError(ResiduaError, ValueError):
    """A value the user gave cannot be used; raised before anything costly starts."""

    exit_status = 2


class MixError(InputError):
    """A run directory holds the results of another command; they are never mixed."""


class ModelError(ResiduaError):
    """A model, tokenizer or checkpoint is missing, damaged or of the wrong kind."""

    exit_status = 2


class IncompleteError(ResiduaError):
    """The work ended with parts missing; what was finished is kept."""

    exit_status = 3
