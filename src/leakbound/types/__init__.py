"""The nouns every layer shares: prompts, queries, decodings, completions, and the seams.

Layer 0: the standard library only. Frozen values; protocols for whatever does the work.
"""

from __future__ import annotations

from leakbound.types.crew import Crew, Opener, Spreads, Workers, alone
from leakbound.types.decoding import Decoding
from leakbound.types.draws import Completion, Draws, Failure, FinishReason, Redrawn, Sample, Usage
from leakbound.types.exploring import (
    Effort,
    Event,
    Exploration,
    ExploreMode,
    Proving,
    Ranges,
)
from leakbound.types.fingerprint import Fingerprint
from leakbound.types.models import Chat, Classify, Embed, Message, Models, Request, Truncates
from leakbound.types.probing import ProbedPrompt, Probes, probe_difference
from leakbound.types.prompts import BenchmarkRecord, Compat, Passage, Prompt, Query, Role, Usual
from leakbound.types.readings import Differentiates, Reading, Reads
from leakbound.types.records import Json, JsonObject, different, from_json, object_of, to_json
from leakbound.types.seams import (
    Explores,
    Generate,
    Keeps,
    Ledger,
    Measures,
    Progress,
    Proves,
    Redraws,
    Retraces,
    Scorer,
    Tell,
    Tells,
    Unkept,
    during,
    renamed,
    silent,
    untold,
)

__all__ = [
    "BenchmarkRecord",
    "Chat",
    "Classify",
    "Compat",
    "Completion",
    "Crew",
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
    "Fingerprint",
    "FinishReason",
    "Generate",
    "Json",
    "JsonObject",
    "Keeps",
    "Ledger",
    "Measures",
    "Message",
    "Models",
    "Opener",
    "Passage",
    "ProbedPrompt",
    "Probes",
    "Progress",
    "Prompt",
    "Proves",
    "Proving",
    "Query",
    "Ranges",
    "Reading",
    "Reads",
    "Redrawn",
    "Redraws",
    "Request",
    "Retraces",
    "Role",
    "Sample",
    "Scorer",
    "Spreads",
    "Tell",
    "Tells",
    "Truncates",
    "Unkept",
    "Usage",
    "Usual",
    "Workers",
    "alone",
    "different",
    "during",
    "from_json",
    "object_of",
    "probe_difference",
    "renamed",
    "silent",
    "to_json",
    "untold",
]
