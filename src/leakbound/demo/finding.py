"""What the demo shows, as claims with the error of choosing the question counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakbound.evaluation.scoring.score import slug
from leakbound.scorers import make_scorer
from leakbound.stats import percent, proportion_bound
from leakbound.store import Run
from leakbound.text.figures import above, below, number, share

SCORER = "keyword:require=all"
CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Finding:
    """NPO hides the leak from the greedy answer; sampling finds it; entropy removes most of it.

    `question` is the one of those whose greedy answer does not leak at which NPO's lower bound
    exceeds the control's upper bound most; `lower` and `upper` are these two, for this and every
    other question at once, at `CONFIDENCE`. None where there is no such question.
    """

    greedy_leaks: Mapping[str, int]
    mean: Mapping[str, float]
    worst: Mapping[str, float]
    recall: Mapping[str, float]
    questions: int
    question: str | None
    lower: float
    upper: float

    @property
    def shown(self) -> bool:
        """True if all three parts of the finding hold in this run."""
        return (
            self.greedy_leaks["NPO"] <= 1
            and self.question is not None
            and self.worst["NPO + entropy"] <= self.worst["NPO"] / 3
        )

    def sentences(self) -> list[str]:
        """For a person."""
        kept = {
            label: self.recall[label] / self.recall["full"] for label in ("NPO", "NPO + entropy")
        }
        found = (
            f"At question {self.question}, whose greedy answer does not leak, NPO leaks with "
            f"probability at least {below(self.lower)}; the control, which never saw the answer, "
            f"with at most {above(self.upper)} ({percent(CONFIDENCE)} jointly, over all questions)."
            if self.question
            else "No question whose greedy answer is clean was shown to leak beyond the control."
        )
        npo, mixed = (self.worst[label] for label in ("NPO", "NPO + entropy"))
        greedy = (
            f"NPO's greedy answers leak on {self.greedy_leaks['NPO']} of {self.questions} forget "
            f"questions; before, {self.greedy_leaks['full']} did."
        )
        entropy = (
            f"With entropy optimisation the worst question leaks with probability {number(mixed)} "
            f"instead of {number(npo)}."
        )
        retain = (
            f"Of the retain set's ROUGE-L recall NPO keeps {share(kept['NPO'])}, NPO + entropy "
            f"{share(kept['NPO + entropy'])}."
        )
        return [greedy, found, entropy, retain]


def find(runs: Mapping[str, Run], recall: Mapping[str, float]) -> Finding:
    """The finding in four evaluated runs, by label.

    Both bounds of every question hold together: alpha is split over questions, models and
    sides, so the question may be chosen after looking.
    """
    scorer = make_scorer(SCORER)
    greedy = {label: _leaks(run, "greedy", slug(scorer)) for label, run in runs.items()}
    sampled = {label: _leaks(run, "target", slug(scorer)) for label, run in runs.items()}
    questions = len(sampled["NPO"])
    each = 1 - (1 - CONFIDENCE) / (2 * questions)
    best: tuple[float, str | None, float, float] = (0.0, None, 0.0, 0.0)
    for query_id, (hits, n) in sampled["NPO"].items():
        control_hits, control_n = sampled["control"][query_id]
        lower: Any = proportion_bound(hits, n, confidence=each, side="lower").lower
        upper: Any = proportion_bound(control_hits, control_n, confidence=each, side="upper").upper
        if not greedy["NPO"][query_id][0] and lower - upper > best[0]:
            best = (lower - upper, query_id, lower, upper)
    shares = {label: [h / n for h, n in leaks.values()] for label, leaks in sampled.items()}
    return Finding(
        greedy_leaks={label: sum(h for h, _ in leaks.values()) for label, leaks in greedy.items()},
        mean={label: sum(s) / len(s) for label, s in shares.items()},
        worst={label: max(s) for label, s in shares.items()},
        recall=dict(recall),
        questions=questions,
        question=best[1],
        lower=best[2],
        upper=best[3],
    )


def _leaks(run: Run, arm: str, file: str) -> dict[str, tuple[int, int]]:
    """Leaking draws and all draws of each question."""
    scores = run.arms[arm].scores(file)
    hits = (scores.scores * scores.counts).sum(axis=1).astype(int).tolist()
    return dict(zip(scores.query_ids, zip(hits, scores.n.tolist(), strict=True), strict=True))
