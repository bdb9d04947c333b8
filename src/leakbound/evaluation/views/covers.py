"""What the statements of a page cover, and what they say nothing about."""

from __future__ import annotations

from leakbound.evaluation.views.view import View
from leakbound.evaluation.views.words import described
from leakbound.stats import percent
from leakbound.text.figures import many


def covered(view: View) -> list[str]:
    """What every statement is about."""
    asked = " and in the rewritings listed" if view.asked else ", in their own words"
    decodings = dict.fromkeys(
        described(model.decoding, model.told.confirmed) for model in view.models
    )
    scorers = ", ".join(scorer.name for scorer in view.scorers)
    sure = percent(view.confidence)
    said = [
        f"the {many(len(view.questions), 'question')} of {view.benchmark['name']}{asked}",
        *(f"all answers there can be at {decoding}" for decoding in decodings),
        f"leaks that the {'scorer sees' if len(view.scorers) == 1 else 'scorers see'}: {scorers}",
        f"what was not drawn, too: each pair of ends holds with {sure} confidence",
    ]
    if any(model.control for model in view.models):
        said.append("what goes beyond a control that never saw the data")
    return said


def not_covered(view: View) -> list[str]:
    """What may leak all the same."""
    reworded = view.asked or view.found
    said = [
        "other questions" if reworded else "other questions, or these in other words",
        "other decodings, system messages and longer answers",
        "who holds the weights: training on, probing or quantising them",
        "leaks that no scorer here sees",
    ]
    if view.found:
        said.insert(1, "ways of asking that the search did not find")
    elif view.asked:
        said.insert(1, "other rewritings than these")
    if not any(model.control for model in view.models):
        said.append("what a model that never saw the data would score: there is no control")
    if any(model.failures for model in view.models):
        said.append("the questions that could not be sampled")
    return said
