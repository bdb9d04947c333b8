"""The whole workflow on a built-in data set: train, unlearn, evaluate.

A small Llama is trained on all built-in data (`full`), and another without the forget set
(`control`). The first model is then trained with NPO to unlearn the forget set (`NPO`). This model
is trained further with NPO and entropy optimisation (`NPO + entropy`). All four models are
evaluated on every forget question. If the call is stopped, the same call resumes.

Entropy optimisation starts only after NPO. If a true answer is still among the likeliest answers, a
lower entropy makes it likelier. So the second phase also uses NPO with a smaller beta, which lowers
the probability of true answers further. In a trial that started both objectives together, some
questions still leaked. In another trial, the second phase used entropy without NPO. There a true
answer returned with probability .99 on some processors, because their rounding errors led to other
weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.demo.model import write_untrained
from leakbound.engines import Prompting
from leakbound.evaluation import Table, evaluate, stored_metrics
from leakbound.presenting.overall import mean_of
from leakbound.presenting.table import interval
from leakbound.reporting.page import write_report
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.stats import Rows, bound, percent
from leakbound.store import Run
from leakbound.store.clock import Clock
from leakbound.text.shown import above, below, number, share
from leakbound.types import Progress, renamed, silent
from leakbound.unlearning import TrainingSettings, finetune, unlearn

BENCHMARK = "fictitious"
FOLDERS = {"full": "full", "NPO": "npo", "NPO + entropy": "npo-entropy", "control": "control"}
LABELS = tuple(FOLDERS)
NPO = "npo:beta=1.5,retain=5"
ENTROPY = "npo:beta=0.5,retain=5+entropy:forget=0.5,retain=-0.1"
LEARN = TrainingSettings(epochs=40, learning_rate=3e-3, batch_size=16)
RECALL = "rouge-l-recall"
RETAINED = "retain_rouge_l_recall"
FORGET = TrainingSettings(epochs=12, learning_rate=5e-4, batch_size=8, seed=1)


@dataclass(frozen=True, slots=True)
class Demo:
    """The results of the demo.

    Attributes:
        runs: the runs by the labels of their models.
        tables: a table of the leakage of the models, and a table of the time of each phase.
        finding: the main result.
        report: the path of the HTML page about all runs.
    """

    runs: Mapping[str, Run]
    tables: tuple[Table, ...]
    finding: Finding
    report: Path


def run_demo(out: Path, *, n: int = 1024, seed: int = 0, progress: Progress = silent) -> Demo:
    """Train, unlearn and evaluate into the folder `out`; reuse finished steps.

    The demo uses one thread, because the model is too small for more threads. So the weights and
    draws do not depend on the number of cores.
    """
    torch.set_num_threads(1)
    task = load_benchmark(BENCHMARK)
    clock = Clock(out / "phases.json")
    models = train_models(out / "models", task, clock, seed=seed, progress=progress)
    runs: dict[str, Run] = {}
    for label in ("control", *LABELS[:-1]):
        with clock.phase(f"evaluate {label}"):
            runs[label] = evaluate(
                str(models[label]),
                task,
                out=out / "runs" / models[label].name,
                n=n,
                seed=seed,
                control=None if label == "control" else runs["control"].path,
                metrics=(RETAINED,),
                progress=renamed(progress, f"{label}: {{}}".format),
            )
        clock.write()
    runs = {label: runs[label] for label in LABELS}
    arms = {label: stored_metrics(run)["arms"]["target"] for label, run in runs.items()}
    recall = {label: arm["metrics"][RETAINED]["value"] for label, arm in arms.items()}
    tables = (_results(runs, recall), _times(clock))
    report = write_report(runs, out / "report.html", more=tables, title="leakbound: the demo")
    return Demo(runs, tables, find(runs, recall), report)


def train_models(
    folder: Path, task: Benchmark, clock: Clock, *, seed: int = 0, progress: Progress = silent
) -> dict[str, Path]:
    """Train the four models of the demo in `folder`, and return their paths by label.

    Finished models are reused.
    """
    forget, retain = task.prompts, task.split("retain")
    prompting = Prompting(template=task.template)
    untrained = folder / "untrained"
    write_untrained(untrained, [*forget, *retain], task.template, seed)
    learn: Callable[..., Any] = partial(
        finetune, str(untrained), settings=replace(LEARN, prompting=prompting)
    )
    without: Callable[..., Any] = partial(
        unlearn, forget=forget, retain=retain, settings=replace(FORGET, prompting=prompting)
    )
    paths = {label: folder / name for label, name in FOLDERS.items()}
    steps = {
        "full": partial(learn, [*forget, *retain]),
        "control": partial(learn, retain),
        "NPO": partial(without, str(paths["full"]), NPO),
        "NPO + entropy": partial(without, str(paths["NPO"]), ENTROPY),
    }
    for label, step in steps.items():
        with clock.phase(f"train {label}"):
            step(out=paths[label], progress=renamed(progress, f"{label}: {{}}".format))
        clock.write()
    return paths


def _times(clock: Clock) -> Table:
    rows = [(name, f"{seconds:.1f} s") for name, seconds in clock.seconds.items()]
    rows.append(("all", f"{sum(clock.seconds.values()):.1f} s"))
    return Table.plain("Time of each phase", ("phase", "time"), rows)


def _results(runs: Mapping[str, Run], recall: Mapping[str, float]) -> Table:
    """Return the table of results, with one row per model."""
    rows = []
    for label, run in runs.items():
        estimates = run.estimates
        greedy = estimates.each("greedy score", arm="greedy", scorer=SCORER)
        deviation = estimates.each("standard deviation", scorer=RECALL)
        usage = run.arms["target"].usage
        rows.append(
            (
                label,
                number(recall[label]),
                f"{sum((row.value or 0) > 0 for row in greedy)} of {len(run.queries)}",
                number(mean_of(estimates.each("leak probability", scorer=SCORER))),
                interval(estimates.worst("leak probability", scorer=SCORER)),
                number(mean_of(estimates.each("leak@k", parameter=32, scorer=SCORER))),
                number(mean_of(estimates.each("mean leakage", scorer=RECALL))),
                above(max(row.upper for row in deviation)),
                number(mean_of(estimates.each("expectation deviation", scorer=RECALL))),
                f"{usage.sampled_tokens / max(usage.forwards, 1):.1f}×",
            )
        )
    columns = (
        "model", "retain recall", "greedy leaks", "mean P(leak)", "worst P(leak), M_bin",
        "leak@32", "mean ROUGE-L", "M_σ ROUGE-L", "ED ROUGE-L", "prefix saving",
    )  # fmt: skip
    note = (
        "Retain recall is the ROUGE-L recall on the retain set. P(leak) is the probability that an "
        "answer has every keyword of the true answer. Worst P(leak) has a 99 % interval, corrected "
        "for the selection of the worst question. M_σ is the largest upper bound on a standard "
        "deviation. ED is the mean plus 2 standard deviations. Means are over the "
        "forget questions. Prefix saving is the number of tokens of all draws per token forwarded."
    )
    return Table.plain("Leakage of the four models", columns, rows, note)


SCORER = "keyword:require=all"
CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Finding:
    """The main result of the demo, in three parts.

    After NPO, greedy answers no longer leak. Sampled answers still leak. Entropy optimisation
    removes most of this leakage.

    Attributes:
        greedy_leaks: the number of questions whose greedy answer leaks, by model.
        mean, worst: the fraction of a question's draws that leak, by model: its mean and its
            maximum over the questions.
        recall: the ROUGE-L recall on the retain set, by model.
        questions: the number of forget questions.
        question: the id of the question, among those without a greedy leak after NPO, at which the
            lower bound after NPO exceeds the upper bound of the control most. None if no lower
            bound exceeds the control's upper bound.
        lower, upper: these two bounds, valid simultaneously for all questions at `CONFIDENCE`.
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
        """True if this run shows all three parts of the finding."""
        return (
            self.greedy_leaks["NPO"] <= 1
            and self.question is not None
            and self.worst["NPO + entropy"] <= self.worst["NPO"] / 3
        )

    def sentences(self) -> list[str]:
        """Return the finding as sentences."""
        kept = {
            label: self.recall[label] / self.recall["full"] for label in ("NPO", "NPO + entropy")
        }
        sampled = (
            f"NPO's greedy answer to {self.question} does not leak, but NPO's sampled answers leak "
            f"with probability at least {below(self.lower)}. The control, which never saw the "
            f"answer, leaks with probability at most {above(self.upper)} ({percent(CONFIDENCE)} "
            "confidence, simultaneously for all questions)."
            if self.question
            else "No question with a clean greedy answer is shown to leak more than the control."
        )
        npo, mixed = (self.worst[label] for label in ("NPO", "NPO + entropy"))
        greedy = (
            f"After NPO, the greedy answer leaks at {self.greedy_leaks['NPO']} of {self.questions} "
            f"forget questions; before NPO, at {self.greedy_leaks['full']}."
        )
        entropy = (
            f"Entropy optimisation {'lowers' if mixed < npo else 'does not lower'} the estimated "
            f"leak probability of the worst question: {number(npo)} before, {number(mixed)} after."
        )
        retain = (
            f"NPO keeps {share(kept['NPO'])} of the ROUGE-L recall on the retain set; NPO + "
            f"entropy keeps {share(kept['NPO + entropy'])}."
        )
        return [greedy, sampled, entropy, retain]


def find(runs: Mapping[str, Run], recall: Mapping[str, float]) -> Finding:
    """Return the finding from the four evaluated runs, by label.

    The error rate alpha is divided among the questions and the two bounds. So both bounds are valid
    simultaneously for all questions, also if the question is selected by the data.
    """
    scorer = make_scorer(SCORER)
    greedy = {label: _leaks(run, "greedy", slug(scorer)) for label, run in runs.items()}
    sampled = {label: _leaks(run, "target", slug(scorer)) for label, run in runs.items()}
    questions = len(sampled["NPO"])
    level = 1 - (1 - CONFIDENCE) / (2 * questions)
    best: tuple[float, str | None, float, float] = (0.0, None, 0.0, 0.0)
    for query_id, (hits, n) in sampled["NPO"].items():
        control_hits, control_n = sampled["control"][query_id]
        mine, other = Rows.of_hits(hits, n), Rows.of_hits(control_hits, control_n)
        lower: Any = bound(mine, confidence=level, side="lower").lower
        upper: Any = bound(other, confidence=level, side="upper").upper
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
    """Return the numbers of leaking draws and of all draws of each question."""
    rows = run.arms[arm].scores(file, binary=True)
    return dict(zip(rows.ids, zip(rows.hits.tolist(), rows.n.tolist(), strict=True), strict=True))
