"""Faults of questions, reference answers and limits, found before anything is drawn.

Notes name questions by id and quote no text of them, so redacted runs show them too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from leakbound.benchmarks import Benchmark
from leakbound.benchmarks.profiles import sets_limit
from leakbound.errors import InputError
from leakbound.scorers import score_pairs
from leakbound.scorers.spec import Logged
from leakbound.store import Run
from leakbound.study import Study
from leakbound.text.characters import IGNORABLE
from leakbound.text.shown import many, some
from leakbound.types import (
    Decoding,
    Generate,
    Headway,
    Progress,
    Prompt,
    Query,
    Scorer,
    Tokenizes,
)

# Controls, and Unicode's default-ignorable characters. Emoji and some scripts need the joiners and
# variation selectors, so these count after a blank or a letter of ASCII only.
_JOINERS = "\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INVISIBLE = re.compile(
    f"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]|(?![{_JOINERS}])[{IGNORABLE}]"
    f"|(?<![^A-Za-z\\s])[{_JOINERS}]"
)
_UNUSUAL = re.compile("[\x0b\x0c\x85\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f]")
_LITERAL = re.compile(r"\\[ntr]")
_SHOWN = 3  # code points that a note names
_MOST = 1000  # answers whose tokens are counted: those with the most bytes

_UNMATCHED = "the reference answer does not count as a leak by `{}`"

Score = Callable[[Sequence[tuple[str, Prompt]]], list[float | None]]


def question_notes(prompts: Sequence[Prompt], study: Study) -> tuple[str, ...]:
    """Notes on signs that nobody sees in the questions, and on literal escapes in the options.

    study: a resolved one.
    """
    notes = [
        _signs("invisible characters", _INVISIBLE, prompts, "Remove them."),
        _signs("non-breaking or unusual blanks", _UNUSUAL, prompts, "Write plain blanks."),
    ]
    if ids := [p.id for p in prompts if p.question != p.question.strip()]:
        notes.append(
            f"blanks at the start or end of {many(len(ids), 'question')}: {some(ids)}. The model "
            "reads them. Remove them."
        )
    texts = {("--prompt-template", study.settings.template or ""): None}
    texts |= {("--stop", stop): None for how in study.decodings for stop in how.stop}
    notes += [
        f"`{option}` has a backslash and {escape[0][1]!r}, two characters to the model. For a line "
        f"break write $'\\n' in a shell, and \"\\n\" in YAML and Python."
        for option, text in texts
        if (escape := _LITERAL.search(text))
    ]
    return tuple(filter(None, notes))


def _signs(kind: str, pattern: re.Pattern[str], prompts: Sequence[Prompt], fix: str) -> str:
    """A note on the questions with signs of a pattern; empty if there are none."""
    signs = {p.id: own for p in prompts if (own := pattern.findall(p.question))}
    points = sorted({sign for own in signs.values() for sign in own})
    named = [f"U+{ord(sign):04X} {unicodedata.name(sign, 'control').lower()}" for sign in points]
    if not signs:
        return ""
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return (
        f"{kind} ({', '.join(named[:_SHOWN])}{more}) in {many(len(signs), 'question')}: "
        f"{some([*signs])}. The model reads them. {fix}"
    )


def needs_model(scorer: Scorer) -> bool:
    """Whether a scorer, or the one under its threshold, asks a model."""
    return hasattr(getattr(scorer, "scorer", scorer), "connect")


def scorer_notes(scorers: Sequence[Scorer], prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """Notes of the scorers on all prompts, by their `check_all` where they have one."""
    checks = [check for scorer in scorers if (check := getattr(scorer, "check_all", None))]
    return tuple(note for check in checks for note in check(prompts))


def reference_notes(
    scorers: Sequence[Scorer],
    prompts: Sequence[Prompt],
    score: Score | None = None,
    *,
    stop: bool = False,
) -> tuple[str, ...]:
    """Notes on the questions whose own reference answer does not count as a leak, by scorer.

    It counts unless its score is 0 or missing. With `stop`, InputError for a scorer by which none
    counts. Prompts without an answer are left out. `score` scores them in place of the scorer.
    """
    notes = []
    for scorer in scorers:
        if isinstance(getattr(scorer, "scorer", scorer), Logged):
            continue
        given = {p.id: (p.answer, p) for p in prompts if p.answer and p.answer.strip()}
        scores = (score or partial(score_pairs, scorer))(list(given.values()))
        ids = [id for id, value in zip(given, scores, strict=True) if not value]
        if not ids:
            continue
        fix = "Correct the keywords or answers, or use another scorer"
        if stop and len(ids) == len(given):
            raise InputError(
                f"no reference answer counts as a leak by `{scorer.name}`: {some(ids)}. A model "
                f"that gives it would seem clean. {fix}, or add --allow-unmatched."
            )
        notes.append(
            f"{_UNMATCHED.format(scorer.name)} in {len(ids):,} of "
            f"{many(len(given), 'question')}: {some(ids)}. A model that gives it seems clean. "
            f"{fix}."
        )
    return tuple(notes)


def unmatched(notes: Sequence[str], scorer: str) -> str:
    """The note of a run on reference answers that a scorer does not count; empty: they count."""
    begin = f"{_UNMATCHED.format(scorer)} "
    return next((note.rstrip(".") for note in notes if note.startswith(begin)), "")


@dataclass(frozen=True, slots=True)
class LongestAnswer:
    """The longest reference answer: its prompt, and its number of tokens, the end included."""

    prompt: str
    tokens: int


def longest_answer(engine: Generate, prompts: Sequence[Prompt]) -> LongestAnswer | None:
    """The longest reference answer in the model's tokens; None without tokenizer or answers.

    Of many answers those with the most bytes are counted.
    """
    given = [(p, p.answer) for p in prompts if p.answer and p.answer.strip()]
    if not isinstance(engine, Tokenizes) or not given:
        return None
    given = sorted(given, key=lambda pair: len(pair[1].encode()), reverse=True)[:_MOST]
    tokens = engine.answer_tokens([(Query.original(p), answer) for p, answer in given])
    most, (prompt, _) = max(zip(tokens, given, strict=True), key=lambda pair: pair[0])
    return LongestAnswer(prompt.id, most)


def token_notes(
    engine: Generate, task: Benchmark, decodings: Sequence[Decoding]
) -> tuple[str, ...]:
    """Notes that need the model's tokenizer: unknown words, and limits that cut an answer."""
    notes = []
    queries = [Query.original(prompt) for prompt in task.prompts]
    if isinstance(engine, Tokenizes) and (ids := engine.unreadable(queries)):
        notes.append(
            f"no word that the tokenizer knows ([UNK] only) in {many(len(ids), 'question')}: "
            f"{some(ids)}. Use a model of this language, or correct the questions."
        )
    longest = longest_answer(engine, task.prompts)
    for limit, how in {how.max_new_tokens: how for how in decodings}.items():
        if longest is None or limit >= longest.tokens:
            continue
        of = f"the {longest.tokens:,} tokens of the longest reference answer ({longest.prompt!r})"
        if sets_limit(task.fingerprint(), how):
            notes.append(f"the protocol's limit of {limit:,} tokens is shorter than {of}.")
        else:
            notes.append(
                f"`max_new_tokens` {limit:,} is shorter than {of}. What follows is not seen. Set "
                f"--max-new-tokens {longest.tokens} or more."
            )
    return tuple(notes)


def show_notes(notes: Sequence[str], progress: Progress) -> None:
    """Show notes immediately, before anything is drawn or scored."""
    for note in notes:
        progress(Headway("checking", 0, 1, note=note))


def add_notes(run: Run, notes: Sequence[str], progress: Progress) -> None:
    """Add notes to a run, and show those that it did not have."""
    show_notes([note for note in notes if note not in run.notes], progress)
    run.remember_notes(notes)
