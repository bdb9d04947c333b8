"""The family of input sources: rewritings of a prompt's question.

A member of this family satisfies `InputSource`. A finite source is a list of rewritings; bounds are
then about exactly these rewritings and the question. The `model` source is a distribution that can
be drawn from any number of times, so repeated rewritings are not removed. `parse_inputs` makes a
source from its written form. `gather` filters the rewritings of a source, and records the removed
rewritings with reasons. `select` is the input selection of Cheng et al. (2025), Algorithm 2. Other
packages add sources through the entry-point group `leakbound.inputs`.
"""

from __future__ import annotations

from leakbound.inputs.gather import NUMBER as NUMBER
from leakbound.inputs.gather import REASONS as REASONS
from leakbound.inputs.gather import Accepted as Accepted
from leakbound.inputs.gather import Filters as Filters
from leakbound.inputs.gather import Removed as Removed
from leakbound.inputs.gather import gather as gather
from leakbound.inputs.ids import DRAWS as DRAWS
from leakbound.inputs.ids import SELECTION as SELECTION
from leakbound.inputs.ids import Criterion as Criterion
from leakbound.inputs.ids import Selection as Selection
from leakbound.inputs.ids import choose as choose
from leakbound.inputs.ids import evidence as evidence
from leakbound.inputs.ids import select as select
from leakbound.inputs.sources import INPUTS as INPUTS
from leakbound.inputs.sources import InputSource as InputSource
from leakbound.inputs.sources import digests_of as digests_of
from leakbound.inputs.sources import fingerprint_of as fingerprint_of
from leakbound.inputs.sources import parse_inputs as parse_inputs
