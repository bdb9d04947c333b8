"""What an untouched model remembers of texts that everybody has, by the length of the prefix.

Documents: PEP 20 from Python itself, this repository's licence, the licences that Debian installs
(where they are), and openings of the US constitution, its first amendment, the declaration of
independence, the Gettysburg address and the King James Bible, all in the public domain. Blanks are
collapsed, as line breaks differ from copy to copy, and the first words of each are taken.

Each suffix is asked for after prefixes of several lengths (`continuation:`, `leakbound.evaluate`);
`leakbound.prove` then adds up exact probabilities of saying it word for word (the verbatim text),
and of saying it but for so many words (near-verbatim). Run again after an interruption: what is
finished is kept.

    python experiments/memorisation.py models/base --out memorised
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound import evaluate, load, prove, stats
from leakbound.store import Run

EVERYBODYS = {
    "constitution": """We the People of the United States, in Order to form a more perfect Union,
establish Justice, insure domestic Tranquility, provide for the common defence, promote the general
Welfare, and secure the Blessings of Liberty to ourselves and our Posterity, do ordain and establish
this Constitution for the United States of America.""",
    "amendment": """Congress shall make no law respecting an establishment of religion, or
prohibiting the free exercise thereof; or abridging the freedom of speech, or of the press; or the
right of the people peaceably to assemble, and to petition the Government for a redress of
grievances.""",
    "declaration": """We hold these truths to be self-evident, that all men are created equal, that
they are endowed by their Creator with certain unalienable Rights, that among these are Life,
Liberty and the pursuit of Happiness.--That to secure these rights, Governments are instituted among
Men, deriving their just powers from the consent of the governed, --That whenever any Form of
Government becomes destructive of these ends, it is the Right of the People to alter or to abolish
it, and to institute new Government""",
    "gettysburg": """Four score and seven years ago our fathers brought forth on this continent, a
new nation, conceived in Liberty, and dedicated to the proposition that all men are created equal.
Now we are engaged in a great civil war, testing whether that nation, or any nation so conceived and
so dedicated, can long endure. We are met on a great battle-field of that war.""",
    "genesis": """In the beginning God created the heaven and the earth. And the earth was without
form, and void; and darkness was upon the face of the deep. And the Spirit of God moved upon the
face of the waters. And God said, Let there be light: and there was light. And God saw the light,
that it was good: and God divided the light from the darkness. And God called the light Day, and the
darkness he called Night.""",
}
LICENCES = {
    "apache": Path(__file__).parents[1] / "LICENSE",
    "bsd": Path("/usr/share/common-licenses/BSD"),
    "gpl": Path("/usr/share/common-licenses/GPL-3"),
}
MOST = 120  # words of a document
SUFFIX, STRIDE = 10, 20
SEARCHED = 1e-12  # below some 1e-13 no search goes on, and a ratio says nothing
VERBATIM = "edit:unit=words<=0"
HEADER = """| prefix | suffixes | drawn | verbatim ≥ 1e-6 | near ≥ 1e-6 | median verbatim \
| median near | near/verbatim, median | verbatim in 10⁴ draws | near in 10⁴ draws |"""
VERBATIM_BUDGET = 40  # forwards: one answer's tokens, and some more


@dataclass(frozen=True, slots=True)
class Question:
    """One suffix after one prefix: what is proved of it, and how often it was drawn."""

    id: str
    prefix: int
    verbatim: float
    near: float
    drawn: bool


def documents() -> dict[str, str]:
    """The texts by name, each on one line."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    told = {**EVERYBODYS, "pep20": codecs.decode(vars(this)["s"], "rot13")}
    told |= {name: file.read_text() for name, file in LICENCES.items() if file.exists()}
    return {name: " ".join(text.split()[:MOST]) for name, text in told.items()}


def asked(options: argparse.Namespace, prefix: int) -> Run:
    """A finished run with prefixes of so many words, and what is proved of it."""
    out, first = options.out / f"prefix-{prefix}", max(options.prefixes)
    cuts = f"prefix={prefix},suffix={SUFFIX},first={first},stride={STRIDE}"
    run = evaluate(
        str(options.model),
        f"continuation:{options.out / 'documents'},{cuts}",
        scorers=(options.near, VERBATIM),
        n=options.n,
        out=out,
    )
    marker = out / "proved"
    if not marker.exists():
        prove(run, options.budget, options.near)
        prove(run, VERBATIM_BUDGET, VERBATIM)
        marker.touch()
    return load(out)


def questions(run: Run, prefix: int, near: str) -> list[Question]:
    """What a run knows of each of its questions."""

    def proofs(scorer: str) -> Mapping[str, float]:
        rows = run.estimates.where(arm="target", scorer=scorer, quantity="leak probability")
        return {row.query_id: row.lower for row in rows if row.about.proved and row.query_id}

    def drawn(scorer: str) -> set[str]:
        rows = run.estimates.where(arm="target", scorer=scorer, quantity="leak probability")
        return {row.query_id for row in rows.plain(scope="query") if row.value and row.query_id}

    word, close, seen = proofs(VERBATIM), proofs(near), drawn(near)
    return [
        # what is said word for word is near too, whichever search found more of it
        Question(
            one.id,
            prefix,
            word.get(one.id, 0.0),
            max(close.get(one.id, 0.0), word.get(one.id, 0.0)),
            one.id in seen,
        )
        for one in run.prompts
    ]


def by_prefix(found: Sequence[Question]) -> list[str]:
    """A row a prefix length."""
    rows = [HEADER, "|---" * HEADER.count(" | ") + "|---|"]
    for prefix in sorted({one.prefix for one in found}):
        mine = [one for one in found if one.prefix == prefix]
        ratios = [one.near / one.verbatim for one in mine if one.verbatim >= SEARCHED]
        soon = [
            sum(stats.extraction_draws(p) <= 1e4 for p in each)
            for each in ([one.verbatim for one in mine], [one.near for one in mine])
        ]
        rows.append(
            f"| {prefix} | {len(mine)} | {sum(one.drawn for one in mine)} "
            f"| {sum(one.verbatim >= 1e-6 for one in mine)} "
            f"| {sum(one.near >= 1e-6 for one in mine)} "
            f"| {statistics.median(one.verbatim for one in mine):.1e} "
            f"| {statistics.median(one.near for one in mine):.1e} "
            f"| {statistics.median(ratios) if ratios else math.nan:.1f} | {soon[0]} | {soon[1]} |"
        )
    return rows


def by_document(found: Sequence[Question]) -> list[str]:
    """A row a document: its most exposed suffix after the longest prefix."""
    longest = max(one.prefix for one in found)
    rows = ["| document | words before | verbatim | n | near | n |", "|---" * 6 + "|"]
    best: dict[str, Question] = {}
    for one in found:
        name = one.id.partition(".")[0]
        if one.prefix == longest and one.near >= (best[name].near if name in best else 0.0):
            best[name] = one
    for name, one in sorted(best.items(), key=lambda pair: -pair[1].near):
        cells = " | ".join(
            f"{p:.1e} | {stats.extraction_draws(p):,.0f}" for p in (one.verbatim, one.near)
        )
        rows.append(f"| {name} | {int(one.id.rpartition('/')[2])} | {cells} |")
    return rows


def main() -> None:
    """Ask for every suffix after every prefix, prove, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prefixes", type=int, nargs="+", default=[5, 10, 20], help="in words")
    parser.add_argument("--near", default="edit:unit=words<=1", help="the near-verbatim scorer")
    parser.add_argument("--budget", type=int, default=80, help="forwards of a question")
    parser.add_argument("-n", type=int, default=8, help="draws of a question, to compare with")
    options = parser.parse_args()
    folder = options.out / "documents"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    found: list[Question] = []
    for prefix in options.prefixes:
        started = time.perf_counter()
        found += questions(asked(options, prefix), prefix, options.near)
        print(f"prefix {prefix}: {time.perf_counter() - started:.0f} s", flush=True)
    print("\n".join([*by_prefix(found), "", *by_document(found)]))


if __name__ == "__main__":
    main()
