"""What a model was asked, in words: a claim over rewritings is none over the questions alone."""

from __future__ import annotations

from leakbound.store import Arm, Run

OWN_WORDS = "each question in its own words"
_SHARED = {
    "allocated": "each question in its own words or a rewriting of it, drawn anew for every output",
    "fixed": "each question in its own words and in rewritings of it, equally often",
    "fresh": "each question in a rewriting of it, another for every output",
}


def asked(run: Run, arm: Arm) -> str:
    """What an arm asks: the questions' own words, or rewritings too, their source and design."""
    inputs, shares = run.record.inputs, arm.spec.shares
    if shares is None or inputs is None:
        return OWN_WORDS
    number = sum(query.source != "original" for query in arm.queries)
    return (
        f"{_SHARED[shares.design]} ({number:,} rewritings, source {inputs.source}, design "
        f"{shares.design})"
    )
