"""The nouns every layer shares: prompts, queries, decodings, completions, and the seams.

Layer 0: the standard library only. Frozen values; protocols for whatever does the work.
"""

from __future__ import annotations

from residua.types.decoding import AdaptiveMode, Decoding
from residua.types.draws import Completion, Draws, Failure, FinishReason, Sample, Usage
from residua.types.exploring import Effort, Event, Exploration, ExploreMode, Ranges
from residua.types.models import Chat, Classify, Embed, Message, Models, Request, Truncates
from residua.types.probing import ProbedPrompt, Probes, probe_difference
from residua.types.prompts import Compat, Passage, Prompt, Query, Role, Source
from residua.types.readings import Differentiates, Reading, Reads
from residua.types.seams import (
    Explores,
    Generate,
    Measures,
    Progress,
    Retraces,
    Scorer,
    Tell,
    Tells,
    silent,
    untold,
)

__all__ = [
    "AdaptiveMode",
    "Chat",
    "Classify",
    "Compat",
    "Completion",
    "Decoding",
    "Differentiates",
    "Draws",
    "Effort",
    "Embed",
    "Event",
    "Exploration",
    "ExploreMode",
    "Explores",
    "Failure",
    "FinishReason",
    "Generate",
    "Measures",
    "Message",
    "Models",
    "Passage",
    "ProbedPrompt",
    "Probes",
    "Progress",
    "Prompt",
    "Query",
    "Ranges",
    "Reading",
    "Reads",
    "Request",
    "Retraces",
    "Role",
    "Sample",
    "Scorer",
    "Source",
    "Tell",
    "Tells",
    "Truncates",
    "Usage",
    "probe_difference",
    "silent",
    "untold",
]
