"""The family of input sources: other texts that ask what a prompt asks.

A member satisfies `InputSource`. A finite one is a list: statements are about these queries. The
`model` source is a distribution that can be drawn from again and again, so repeats stay.
`parse_inputs` makes a member from its written form, `gather` filters what it gives and keeps a
record of what was removed and why, `select` is the input selection of Cheng et al. (2025),
Algorithm 2. Third parties add theirs in the entry-point group `leakbound.inputs`.
"""

from __future__ import annotations

from leakbound.inputs.filters import REASONS as REASONS
from leakbound.inputs.filters import Filters as Filters
from leakbound.inputs.filters import require_similarity as require_similarity
from leakbound.inputs.gather import NUMBER as NUMBER
from leakbound.inputs.gather import Accepted as Accepted
from leakbound.inputs.gather import Removed as Removed
from leakbound.inputs.gather import gather as gather
from leakbound.inputs.ids import CRITERIA as CRITERIA
from leakbound.inputs.ids import DRAWS as DRAWS
from leakbound.inputs.ids import SELECTION as SELECTION
from leakbound.inputs.ids import Criterion as Criterion
from leakbound.inputs.ids import Selection as Selection
from leakbound.inputs.ids import choose as choose
from leakbound.inputs.ids import evidence as evidence
from leakbound.inputs.ids import select as select
from leakbound.inputs.source import InputSource as InputSource
from leakbound.inputs.source import digests_of as digests_of
from leakbound.inputs.source import fingerprint_of as fingerprint_of
from leakbound.inputs.spec import INPUTS as INPUTS
from leakbound.inputs.spec import parse_inputs as parse_inputs
