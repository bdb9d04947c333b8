"""Comparisons of runs: bounds, confidence, words and refusals."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats as scipy_stats

from cli.commands import done, leakbound, refused
from contents import counts
from leakbound import bound, compare, evaluate, figures
from leakbound.errors import InputError, MixError
from leakbound.presenting.compared import Comparison, change, difference_sentence, moved
from leakbound.presenting.view import read_view
from leakbound.stats import About, Estimate
from leakbound.store import EstimateRow, Estimates, Run
from leakbound.study import Explore
from leakbound.testing import FakeEngine
from leakbound.types import Decoding
from shared import keep

LEAK, CLEAN = "Ann did", "nobody did"
BEFORE, AFTER, LIKE = (0.9, 0.5, 0.3), (0.1, 0.5, 0.0), (0.9, 0.51, 0.3)


def law(chances: tuple[float, ...]) -> FakeEngine:
    each = {f"mine/{i:04d}": {LEAK: p, CLEAN: 1 - p} for i, p in enumerate(chances, 1)}
    return FakeEngine({k: {text: p for text, p in v.items() if p} for k, v in each.items()})


def questions_in(folder: Path) -> Path:
    file = folder / "mine.csv"
    rows = [f"who did {what},Ann,Ann" for what in ("this", "that", "it")]
    file.write_text("\n".join(["question,answer,keywords", *rows]))
    return file


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return questions_in(tmp_path)


def made(questions: Path, name: str, chances: tuple[float, ...], n: int = 200, **how: Any) -> Run:
    out = questions.parent / name
    return evaluate(law(chances), f"{questions}", out=out, n=n, **({"scorers": "keyword"} | how))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """Three models that no test may change."""
    wanted = questions_in(tmp_path_factory.mktemp("compared"))
    chances = {"before": BEFORE, "after": AFTER, "like": LIKE}
    got = {name: made(wanted, name, leaks) for name, leaks in chances.items()}
    keep(wanted.parent)
    return got


def keyless() -> AbstractContextManager[object]:
    """Remove the identity of all models, so that none keys its draws."""
    return patch("leakbound.store.arm.which_model", lambda spec: None)


@pytest.fixture(scope="module")
def unkeyed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    wanted = questions_in(tmp_path_factory.mktemp("alike"))
    drawn = (("before", BEFORE, 0), ("alike", AFTER, 0), ("apart", AFTER, 1))
    with keyless():
        return {name: made(wanted, name, chances, seed=seed) for name, chances, seed in drawn}


@pytest.fixture
def alike(unkeyed: Mapping[str, Run]) -> Iterator[Mapping[str, Run]]:
    """Two models whose draws share their keys, and one with another seed."""
    with keyless():
        yield unkeyed


def differences(of: Comparison) -> dict[str, Estimates]:
    return of.differences(of.scorers[0])


def leaks(of: Run) -> np.ndarray:
    """Count the draws that leak, shape (Q,), from the stored completions."""
    hits = counts(of.arms["target"], "query_id", "answer")
    return np.asarray([hits[f"mine/{i:04d}", LEAK] for i in (1, 2, 3)])


def test_differences_follow_from_the_counts(alike: Mapping[str, Run], tmp_path: Path) -> None:
    """Draws with the same keys: each model has its own bounds, at alpha / 2^4 / 3."""
    folders = [shutil.copytree(alike[x].path, tmp_path / x) for x in ("before", "alike")]
    pair = list(map(Run.open, folders))
    for one in pair:
        bound(one, confidence=0.98)
    got = compare(pair)
    assert got.confidence == 0.98
    assert got.dependent == ("alike",)
    mean, *each = differences(got)["alike"]
    hits = [leaks(one) for one in pair]
    np.testing.assert_allclose([row.value for row in each], (hits[1] - hits[0]) / 200)
    share = 0.02 / 2 / 3 / 2 / 2  # mean and questions; questions; models; bounds
    ends = [
        (scipy_stats.beta.ppf(share, k, 201 - k), scipy_stats.beta.ppf(1 - share, k + 1, 200 - k))
        for k in np.stack(hits)
    ]
    lower = np.nan_to_num(ends[1][0]) - ends[0][1]
    upper = ends[1][1] - np.nan_to_num(ends[0][0])
    np.testing.assert_allclose([row.lower for row in each], lower, atol=1e-9)
    np.testing.assert_allclose([row.upper for row in each], upper, atol=1e-9)
    assert sorted(map(moved, each)) == ["fell", "fell", "not shown"]
    assert mean.query_id is None
    assert mean.value == pytest.approx(((hits[1] - hits[0]) / 200).mean())
    assert mean.lower < -11 / 30 < mean.upper < 0
    assert mean.estimand == "difference in leak probability"
    assert "relative to the baseline" in each[0].target
    for row in (mean, *each):
        assert (row.family, row.confidence, row.about.jointly) == ("models", 0.98, True)


def test_other_seeds_are_bet_on_and_narrower(alike: Mapping[str, Run]) -> None:
    widths = []
    for name in ("alike", "apart"):
        got = compare([alike["before"], alike[name]])
        mean, *_ = differences(got)[name]
        assert bool(got.dependent) == (name == "alike")
        widths.append(mean.upper - mean.lower)
    assert widths[1] < widths[0]


def test_models_under_one_seed_draw_independently(runs: Mapping[str, Run]) -> None:
    pair = [runs["before"], runs["like"]]
    hits = np.stack([leaks(one) for one in pair])
    assert hits[0][0] != hits[1][0]  # the same chance of the same words
    assert compare(pair).dependent == ()


@pytest.mark.slow
def test_all_differences_hold_at_the_stated_confidence(questions: Path) -> None:
    """32 comparisons of three models, with users' seeds: 0 everywhere, and others."""
    truth = {"b": np.subtract(AFTER, BEFORE), "c": np.subtract(LIKE, BEFORE)}
    missed = {False: 0, True: 0}
    for number in range(32):
        apart = bool(number % 2)
        seeds = [3 * number + i if apart else number for i in range(3)]
        runs = [
            made(questions, f"{number}/{name}", chances, n=32, seed=seed, confidence=0.5)
            for name, chances, seed in zip("abc", (BEFORE, AFTER, LIKE), seeds, strict=True)
        ]
        missed[apart] += not all(
            row.lower <= value <= row.upper
            for label, rows in differences(compare(runs)).items()
            for row, value in zip(rows, (truth[label].mean(), *truth[label]), strict=True)
        )
    for count in missed.values():
        assert scipy_stats.binomtest(count, 16, 0.5, alternative="greater").pvalue > 0.001


def test_decodings_are_compared_after_settings(questions: Path) -> None:
    decodings = (Decoding(max_new_tokens=9), Decoding(max_new_tokens=9, temperature=0.5))
    one = made(questions, "a", BEFORE, n=32, decodings=decodings)
    got = compare([one, made(questions, "b", AFTER, n=50, seed=4)])
    assert got.labels == ("a, T=1", "a, T=0.5", "b")
    assert got.tables()[0].title == "Settings that differ"
    assert "seed 4" in got.made["draws"]["b"]
    assert "decoding" in got.made
    assert not {"model", "weights"} & set(got.made)


@pytest.mark.slow
def test_an_exactly_explored_run_is_compared_with_draws(questions: Path) -> None:
    drawn, how = made(questions, "drawn", BEFORE), {"sampling": Explore("exact", 50)}
    out = questions.parent / "explored"
    explored = evaluate(law(AFTER), f"{questions}", out=out, scorers="keyword", **how)
    for pair in ([drawn, explored], [explored, drawn]):
        got = compare(pair)
        assert got.confidence == 0.99
        rows = got.statements.where(scope="mean", beyond="baseline")
        assert sum(abs(row.value) > 0.2 for row in rows) == 1
        assert "questions" not in figures(pair, questions.parent / "f", formats=["svg"]).left_out
    assert read_view({"explored": explored}).confidence == 1
    loose = made(questions, "loose", LIKE, confidence=0.9)
    with pytest.raises(MixError, match=r"at 90 %, 99 %, but .* Run `leakbound bound RUN --conf"):
        read_view({"explored": explored, "drawn": drawn, "loose": loose})


@pytest.mark.thorough
def test_the_leaderboard_is_of_the_excess_where_all_have_a_control(questions: Path) -> None:
    control = law((0.05, 0.05, 0.05))
    runs = [made(questions, n, p, control=control) for n, p in (("a", BEFORE), ("b", AFTER))]
    got = compare(runs)
    (scorer,) = got.scorers
    assert got.against_control(scorer)
    for opened in runs:
        row = opened.estimates.mean("leak probability", beyond="control")
        assert got.certified(opened.path.name, scorer) == replace(row, arm=opened.path.name)
    assert [t.rows[0][0].text for t in compare(runs).tables() if "leaderboard" in t.title] == ["b"]
    alone = made(questions, "alone", AFTER, seed=1)
    assert not compare([*runs, alone]).against_control(scorer)


def test_the_front_is_of_those_that_none_beats(runs: Mapping[str, Run]) -> None:
    useful = {"before": {"u": 0.9}, "after": {"u": 0.4}, "like": {"u": 0.4}}
    got = replace(compare(runs), utility="u", useful=useful)
    front = [row["arm"] for row in got.leaderboard(got.scorers[0]) if row["front"]]
    assert sorted(front) == ["after", "before"]


def test_refused_comparisons(runs: Mapping[str, Run], questions: Path, tmp_path: Path) -> None:
    one, other = runs["before"], runs["after"]
    twin = shutil.copytree(one.path, tmp_path / "elsewhere" / "before")
    again = shutil.copytree(one.path, tmp_path / "again")
    scored = made(questions, "scored", AFTER, 16, scorers="contains", seed=1)
    fewer = made(questions, "fewer", AFTER, 16, limit=2)
    for given, how, error, named in (
        ([one], {}, InputError, "two models that were sampled, got 'before'"),
        ([one, one.path], {}, InputError, "a run was given twice"),
        ([one, twin], {}, InputError, "same folder name"),
        ([one, again], {}, MixError, "'before' and 'again' have the same draws"),
        ([one, scored], {}, MixError, r"no scorer has estimates in all .*'keyword'.*'contains'"),
        ([one, fewer], {}, MixError, "'fewer' is on"),
        ([one, other], {"utility": "bleu"}, MixError, "no metric 'bleu'"),
        ([one, other], {"confidence": 0.95}, MixError, "at 99 %, but .*one confidence, here 95 %"),
    ):
        with pytest.raises(error, match=named):
            compare(given, **how)


def test_every_form_has_the_same_figures(runs: Mapping[str, Run], tmp_path: Path) -> None:
    names = {"before": "a_1", "after": "b&c"}
    paths = [shutil.copytree(runs[old].path, tmp_path / new) for old, new in names.items()]
    (verdict,) = compare(paths).verdicts
    assert verdict.sentence.startswith("b&c leaks LESS than a_1: by at least 0.")
    assert verdict.sentence.endswith(f"of 3 questions and {NO_RISE} {SURE}.")
    assert done("compare", *paths).out.startswith(f"{verdict.sentence}\n\n")
    markdown = done("compare", *paths, "--format", "markdown").out
    assert markdown.startswith(r"b&c leaks LESS than a\_1: by")
    rows = [*csv.DictReader(done("compare", *paths, "--format", "csv").out.splitlines())]
    data = json.loads(done("compare", *paths, "--json").out)
    assert [row["scope"] for row in rows] == ["mean", *["query"] * 3]
    assert [row["moved"] for row in rows] == ["fell", "fell", "not shown", "fell"]
    assert [one["sentence"] for one in data["verdicts"]] == [verdict.sentence]
    assert [row["question"] for row in rows[1:]] == ["who did this", "who did that", "who did it"]
    for row, value in zip(rows, data["differences"], strict=True):
        assert (value["family"], value["confidence"], value["jointly"]) == ("models", 0.99, True)
        assert float(row["lower"]) == value["lower"]
        assert row["query_id"] == (value["query_id"] or "")
    out = tmp_path / "table.tex"
    done("compare", *paths, "--format", "latex", "--out", out)
    for ignored in (["--out", out], ["--format", "csv"]):
        refused(leakbound("compare", *paths, "--json", *ignored), str(ignored[0]), "--json")
    latex = out.read_text()
    assert latex.splitlines()[1].startswith(r"b\&c leaks LESS than a\_1: by")
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 3
    labels = re.findall(r"\\label{(tab:[a-z0-9-]+)}", latex)
    assert len(set(labels)) == 3


def test_questions_are_named_unless_redacted(runs: Mapping[str, Run], tmp_path: Path) -> None:
    paths = [shutil.copytree(runs[name].path, tmp_path / name) for name in ("before", "after")]
    (_, each, _) = compare(paths).tables()
    assert sorted(row[0] for row in each.texts) == [
        f"mine/000{i} who did {what}" for i, what in enumerate(("this", "that", "it"), 1)
    ]
    Run.open(paths[1]).redact(True)
    for how in ([], ["--format", "latex"], ["--json"]):
        shown = done("compare", *paths, *how).out
        assert "mine/0001" in shown
        assert not any(word in shown for word in ("who did", LEAK, "Ann"))


Ends = tuple[float, float]
FELL, ROSE, STILL = (-0.5, -0.3), (0.3, 0.5), (-0.1, 0.1)


def difference(question: str | None, ends: Ends) -> EstimateRow:
    lower, upper = ends
    about = About(quantity="leak probability", beyond="baseline")
    how = {"confidence": 0.99, "side": "both", "n": 64, "missing": 0, "method": "by hand"}
    made = Estimate(about=about, value=sum(ends) / 2, lower=lower, upper=upper, **how)  # type: ignore[arg-type]
    return EstimateRow("after", "keyword", question, made)


BY, TINY = "by at least 0.30 on average", "by at least 0.00012 on average"
SURE = "(simultaneously valid, 99 % confidence)"
AROUND = "the average difference is between −0.10 and 0.10"
OPEN = f"{AROUND}, so no difference is shown on average"
UNKNOWN = "the average difference is unknown, because some questions have no completions"
NO_RISE, NO_FALL, UP = "is shown to rise at none", "is shown to fall at none", "leakage rose at"
SAYS = {
    "less": "after leaks LESS than before",
    "more": "after leaks MORE than before",
    "mixed": "after compared with before has MIXED differences",
    "not shown": "NO DIFFERENCE is shown between after and before",
}


@pytest.mark.parametrize(
    ("mean", "each", "kind", "sentence"),
    [
        (FELL, [FELL] * 24, "less", f"{BY}; leakage fell at all 24 questions"),
        (FELL, [STILL] * 4, "less", f"{BY}; no change is shown at any of 4 questions"),
        (STILL, [ROSE, ROSE, STILL], "more", f"{OPEN}; {UP} 2 of 3 questions and {NO_FALL}"),
        (STILL, [STILL] * 2, "not shown", f"{AROUND}; no change is shown at any of 2 questions"),
        (FELL, [ROSE, *[FELL] * 9], "mixed", f"less {BY}; {UP} 1 of 10 questions and fell at 9"),
        (STILL, [ROSE, FELL], "mixed", f"{OPEN}; leakage rose at 1 of 2 questions and fell at 1"),
        (None, [FELL, STILL], "less", f"{UNKNOWN}; leakage fell at 1 of 2 questions and {NO_RISE}"),
        ((-0.5, -0.00012), [FELL] * 2, "less", f"{TINY}; leakage fell at both questions"),
    ],
)
def test_a_verdict_states_only_what_is_shown(
    mean: Ends | None, each: list[Ends], kind: str, sentence: str
) -> None:
    rows = [difference(f"q{i}", ends) for i, ends in enumerate(each)]
    rows += [] if mean is None else [difference(None, mean)]
    assert change(rows) == kind
    shown = difference_sentence("after", "before", rows, binary=True, confidence=0.99)
    assert shown == f"{SAYS[kind]}: {sentence} {SURE}."


def test_an_end_at_0_shows_nothing() -> None:
    rows = (difference("q", ends) for ends in ((-0.2, 0.0), (0.0, 0.2), FELL, ROSE))
    assert [*map(moved, rows)] == ["not shown", "not shown", "fell", "rose"]
