"""The types that every layer uses: prompts, queries, decodings, completions, and protocols.

This is layer 0, which imports only the standard library. It defines frozen values, and the
protocols by which layers use each other.
"""

from __future__ import annotations

from leakbound.types.decoding import Decoding as Decoding
from leakbound.types.draws import RULE as RULE
from leakbound.types.draws import TURN as TURN
from leakbound.types.draws import Completion as Completion
from leakbound.types.draws import Draws as Draws
from leakbound.types.draws import Effort as Effort
from leakbound.types.draws import Event as Event
from leakbound.types.draws import Exploration as Exploration
from leakbound.types.draws import ExploreMode as ExploreMode
from leakbound.types.draws import Failure as Failure
from leakbound.types.draws import Finish as Finish
from leakbound.types.draws import Output as Output
from leakbound.types.draws import Parts as Parts
from leakbound.types.draws import Proving as Proving
from leakbound.types.draws import Ranges as Ranges
from leakbound.types.draws import Redrawn as Redrawn
from leakbound.types.draws import Sample as Sample
from leakbound.types.draws import Usage as Usage
from leakbound.types.prompts import BenchmarkRecord as BenchmarkRecord
from leakbound.types.prompts import Compat as Compat
from leakbound.types.prompts import Half as Half
from leakbound.types.prompts import HalfSide as HalfSide
from leakbound.types.prompts import Passage as Passage
from leakbound.types.prompts import Prompt as Prompt
from leakbound.types.prompts import Query as Query
from leakbound.types.prompts import Role as Role
from leakbound.types.prompts import Thinking as Thinking
from leakbound.types.prompts import Usual as Usual
from leakbound.types.readings import Differentiates as Differentiates
from leakbound.types.readings import Fingerprint as Fingerprint
from leakbound.types.readings import ProbedPrompt as ProbedPrompt
from leakbound.types.readings import Probes as Probes
from leakbound.types.readings import Reading as Reading
from leakbound.types.readings import Reads as Reads
from leakbound.types.readings import probe_difference as probe_difference
from leakbound.types.records import Json as Json
from leakbound.types.records import JsonObject as JsonObject
from leakbound.types.records import different as different
from leakbound.types.records import from_json as from_json
from leakbound.types.records import object_of as object_of
from leakbound.types.records import to_json as to_json
from leakbound.types.seams import Chat as Chat
from leakbound.types.seams import Classify as Classify
from leakbound.types.seams import Crew as Crew
from leakbound.types.seams import DrawJournal as DrawJournal
from leakbound.types.seams import Embed as Embed
from leakbound.types.seams import Explores as Explores
from leakbound.types.seams import Generate as Generate
from leakbound.types.seams import Headway as Headway
from leakbound.types.seams import Keeps as Keeps
from leakbound.types.seams import Leads as Leads
from leakbound.types.seams import Measures as Measures
from leakbound.types.seams import Message as Message
from leakbound.types.seams import Models as Models
from leakbound.types.seams import Opener as Opener
from leakbound.types.seams import Progress as Progress
from leakbound.types.seams import Proves as Proves
from leakbound.types.seams import Redraws as Redraws
from leakbound.types.seams import ReportsProgress as ReportsProgress
from leakbound.types.seams import Request as Request
from leakbound.types.seams import Requests as Requests
from leakbound.types.seams import Retraces as Retraces
from leakbound.types.seams import Scorer as Scorer
from leakbound.types.seams import Spreads as Spreads
from leakbound.types.seams import Tell as Tell
from leakbound.types.seams import Tokenizes as Tokenizes
from leakbound.types.seams import Truncates as Truncates
from leakbound.types.seams import Unkept as Unkept
from leakbound.types.seams import Workers as Workers
from leakbound.types.seams import alone as alone
from leakbound.types.seams import counted as counted
from leakbound.types.seams import during as during
from leakbound.types.seams import renamed as renamed
from leakbound.types.seams import silent as silent
from leakbound.types.seams import untold as untold
