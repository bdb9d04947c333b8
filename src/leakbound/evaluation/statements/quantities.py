"""Which quantities an evaluation reports, and at which x and k."""

from __future__ import annotations

from leakbound.stats.about import Quantity, Scope

STANDARD_K = (1, 2, 4, 8, 16, 32, 64, 128)
FAR_K = (256, 1024, 4096, 16384, 65536, 262144, 1048576)
ALL_K = STANDARD_K + FAR_K
TOGETHER_K = 32  # of the mean over the questions, which needs one k fixed beforehand
FEWEST_BLOCKS = 8  # of k draws, over all questions: fewer say next to nothing of leak@k
CURVE_X = tuple(round(0.05 * i, 2) for i in range(20))
LEAK_X = (0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # how many questions leak more than x
RHO = 2.0  # of the ED score
LEAKAGE: tuple[Quantity, ...] = (
    "leak probability",
    "mean leakage",
)  # of a binary scorer, and of any other
CLAIMS: tuple[Quantity, Quantity] = ("claim on leak probability", "claim on mean leakage")
EACH: tuple[Scope, Scope] = ("query", "question")
"""What a statement about one question is about: asked in one query, or in several."""
