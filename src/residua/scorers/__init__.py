"""The family of scorers: h, from a completion and its prompt to [0, 1], 1 always a full leak.

A member is a frozen dataclass of its settings. It satisfies `residua.types.Scorer`; it may have
`check(prompt)`, which raises InputError for a prompt it could never score, so that a run stops
before a model is loaded. Third parties add theirs in the entry-point group `residua.scorers`.
"""

from __future__ import annotations

from residua.scorers.family import check_prompts, digest, score_texts, settings
from residua.scorers.keyword import Keyword
from residua.scorers.refusal import Refusal
from residua.scorers.rouge import RougeLF1, RougeLRecall
from residua.scorers.spec import SCORERS, make_scorer
from residua.scorers.threshold import Threshold
from residua.scorers.verbatim import Contains, Exact

__all__ = [
    "SCORERS",
    "Contains",
    "Exact",
    "Keyword",
    "Refusal",
    "RougeLF1",
    "RougeLRecall",
    "Threshold",
    "check_prompts",
    "digest",
    "make_scorer",
    "score_texts",
    "settings",
]
