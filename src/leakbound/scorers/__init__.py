"""The family of scorers: a scorer maps a completion and its prompt to [0, 1]; 1 is a full leak.

A scorer is a frozen dataclass of its settings that satisfies `leakbound.types.Scorer`. Two methods
are optional. `check(prompt)` raises InputError for a prompt that the scorer can never score. So a
run stops before a model is loaded. `check_all(prompts) -> list[str]` returns notes about the
prompts, or raises InputError if the scores are meaningless for all of these prompts. Other packages
add scorers through the entry-point group `leakbound.scorers`.

A scorer may have a method `bounds(prefix, prompt) -> (low, high)`. It returns
the lowest and the highest score of all texts that begin with `prefix`,
including `prefix` itself. With `bounds`, an exploration of the output
distribution can stop at a prefix whose score is known. Without `bounds`, only
complete texts are scored. The bounds must be valid for every continuation. They
must be (0, 1) if the scorer may be unable to decide a continuation.
`leakbound.text.keywords.settled` returns the beginning of a text that no
continuation changes. A run tests the bounds on its own completions with
`check_bounds`, and stops if a completion violates them.

A scorer that reads answers only has `reads_thoughts = False`. For all other
scorers, a setting `of=` specifies the part of each output that is scored; see
`leakbound.scorers.outputs`.

A scorer that queries a model has a setting `model` with the model's name, and a method
`connect(models) -> Scorer`. `connect` returns the same scorer with the opened model in a field with
`compare=False`. `models` is a `leakbound.types.Models`. So a scorer can be made and named without
opening a model. A connected scorer has `fingerprint`, the record of the model, which is stored with
the scores. Such a scorer may also have a method `score_pairs(pairs) -> list[float | None]`, for
texts of several prompts in one batch.
"""

from __future__ import annotations

from leakbound.scorers.family import base_of as base_of
from leakbound.scorers.family import check_bounds as check_bounds
from leakbound.scorers.family import check_prompts as check_prompts
from leakbound.scorers.family import connect as connect
from leakbound.scorers.family import digest as digest
from leakbound.scorers.family import fingerprint as fingerprint
from leakbound.scorers.family import models_of as models_of
from leakbound.scorers.family import score_pairs as score_pairs
from leakbound.scorers.family import score_texts as score_texts
from leakbound.scorers.family import settings as settings
from leakbound.scorers.outputs import Readable as Readable
from leakbound.scorers.outputs import is_unscored as is_unscored
from leakbound.scorers.outputs import readable as readable
from leakbound.scorers.outputs import reads_thoughts as reads_thoughts
from leakbound.scorers.outputs import rows_of as rows_of
from leakbound.scorers.outputs import score_outputs as score_outputs
from leakbound.scorers.outputs import score_ranges as score_ranges
from leakbound.scorers.spec import SCORERS as SCORERS
from leakbound.scorers.spec import Of as Of
from leakbound.scorers.spec import Threshold as Threshold
from leakbound.scorers.spec import make_scorer as make_scorer
from leakbound.scorers.spec import reading_of as reading_of
from leakbound.scorers.spec import require_scorer as require_scorer
from leakbound.scorers.spec import source_of as source_of
from leakbound.scorers.spec import specs_of as specs_of
from leakbound.scorers.spec import with_reading as with_reading
from leakbound.scorers.wording import short_keywords as short_keywords
