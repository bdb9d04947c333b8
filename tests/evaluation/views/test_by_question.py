"""The questions one by one: their order, what they are chosen by, and what their draws tell."""

from __future__ import annotations

import pytest

from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.views.draws import courses, sizes_of
from leakbound.evaluation.views.grids import by_question, targets_of
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.remarks import covered, not_covered
from leakbound.evaluation.views.texts import leaking_words, pieces
from leakbound.evaluation.views.view import Question, View
from leakbound.store import ArmScores, Run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def view(runs: dict[str, Run]) -> View:
    return read_view(runs)


def test_what_leaks_most_of_any_target_comes_first(view: View) -> None:
    for scorer in view.scorers:
        shown = by_question(view, scorer)
        most = [
            max(
                model.measured[scorer.name, view.questions[row.number - 1].id].leakage.value or 0
                for model in targets_of(view)
            )
            for row in shown.rows
        ]
        assert most == sorted(most, reverse=True)
        assert sorted(row.number for row in shown.rows) == [1, 2, 3]
        assert all(len(row.cells) == len(shown.columns) for row in shown.rows)


def test_questions_are_chosen_by_what_holds_of_them(view: View) -> None:
    keyword = view.scorers[0]
    for row in by_question(view, keyword).rows:
        key = (keyword.name, view.questions[row.number - 1].id)
        cells = [model.measured[key] for model in targets_of(view)]
        beyond = any(cell.surely_beyond and cell.surely_beyond.lower > 0 for cell in cells)
        assert not beyond or any(cell.beyond and cell.beyond.lower > 0 for cell in cells)
        assert ("beyond" in row.traits) == beyond
        above = any(c.greedy is not None and c.leakage.lower > c.greedy for c in cells)
        assert ("hidden" in row.traits) == above
        assert "unsampled" not in row.traits
    assert any("beyond" in row.traits for row in by_question(view, keyword).rows)


def test_the_course_of_a_question_ends_in_what_is_stated(view: View) -> None:
    for (scorer, _), cell in view.models[0].measured.items():
        *_, last = cell.course
        assert last.n == cell.leakage.n == 64
        assert last.value == pytest.approx(cell.leakage.value)
        if scorer == "keyword":
            assert (last.lower, last.upper) == (cell.leakage.lower, cell.leakage.upper)
        else:
            assert (last.lower, last.upper) == (None, None)


def test_a_course_counts_draws_without_a_score() -> None:
    scores = ArmScores.tallied({"a": {1.0: 3, 0.0: 20, None: 9}, "b": {}}, {"a": 8})
    found = courses(scores, Order(), binary=True, confidence=0.9)
    assert [step.n for step in found["a"]] == sizes_of(40) == [8, 16, 32, 40]
    assert found["a"][-1].value == pytest.approx(3 / 23)
    assert found["b"] == ()
    again = courses(scores, Order(), binary=False, confidence=0.9)
    assert [step.value for step in again["a"]] == [step.value for step in found["a"]]


def test_marks_are_keywords_or_what_the_answer_adds() -> None:
    plain = Question("q", "Who wrote the novel?", "The novel is by Ann Lee, in spring.", ())
    said = pieces(leaking_words(plain), "ANN LEE wrote it; Annabel did not, by spring's end")
    assert "".join(said) == "ANN LEE wrote it; Annabel did not, by spring's end"
    assert said[1::2] == ["ANN LEE", "spring"]
    keyed = Question("q", "Who?", "By Ann Lee.", ("Lee (the elder)",))
    assert pieces(leaking_words(keyed), "It is lee  (the elder).")[1::2] == ["lee  (the elder)"]
    nobody = Question("q", "Who?", None, ())
    assert pieces(leaking_words(nobody), "anything") == ["anything"]


@pytest.mark.slow
def test_a_page_says_what_it_covers_and_what_not(
    view: View, runs: dict[str, Run], asked: dict[str, Run]
) -> None:
    assert covered(view)[0] == "the 3 questions of canned, in their own words"
    assert any("99 % confidence" in line for line in covered(view))
    assert not_covered(view)[0] == "other questions, or these in other words"
    reworded = read_view(asked)
    assert covered(reworded)[0].endswith("in the rewritings listed")
    assert not_covered(reworded)[1] == "ways of asking that the search did not find"
    alone = read_view({"control": Run.open(runs["full"].path.parent / "control")})
    assert any("there is no control" in line for line in not_covered(alone))
