"""The family of input sources: other texts that ask what a prompt asks.

A member satisfies `InputSource`. A finite one is a list: statements are about these queries. The
`model` source is a distribution that can be drawn from again and again, so repeats stay.
`parse_inputs` makes a member from its written form, `gather` filters what it gives and keeps a
record of what was removed and why, `select` is the input selection of Cheng et al. (2025),
Algorithm 2. Third parties add theirs in the entry-point group `leakbound.inputs`.
"""

from __future__ import annotations

from leakbound.inputs.filters import REASONS, Filters, Reason, require_similarity
from leakbound.inputs.gather import NUMBER, Accepted, Removed, gather
from leakbound.inputs.ids import (
    CRITERIA,
    DRAWS,
    SELECTION,
    Criterion,
    Selection,
    choose,
    evidence,
    select,
)
from leakbound.inputs.model import REWRITING
from leakbound.inputs.source import InputSource, digests_of, fingerprint_of
from leakbound.inputs.spec import INPUTS, parse_inputs

__all__ = [
    "CRITERIA",
    "DRAWS",
    "INPUTS",
    "NUMBER",
    "REASONS",
    "REWRITING",
    "SELECTION",
    "Accepted",
    "Criterion",
    "Filters",
    "InputSource",
    "Reason",
    "Removed",
    "Selection",
    "choose",
    "digests_of",
    "evidence",
    "fingerprint_of",
    "gather",
    "parse_inputs",
    "require_similarity",
    "select",
]
