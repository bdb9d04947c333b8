"""Warn of faults in questions, reference answers and limits before anything is drawn.

Notes contain the ids of questions but not their texts, so redacted runs show them too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from leakbound.benchmarks import Benchmark
from leakbound.benchmarks.profiles import sets_limit
from leakbound.errors import InputError
from leakbound.scorers import base_of, make_scorer, score_pairs, with_reading
from leakbound.scorers.spec import Logged
from leakbound.store import ArmSpec, Run
from leakbound.study import Study
from leakbound.text.characters import IGNORABLE
from leakbound.text.shown import many, some
from leakbound.text.stops import has_word, stops_inside
from leakbound.types import (
    Decoding,
    Fingerprint,
    Generate,
    Headway,
    JsonObject,
    Progress,
    Prompt,
    Scorer,
    Tokenizes,
    different,
)

# Control characters, and Unicode's default-ignorable characters. Emoji and some scripts need
# joiners and variation selectors: they are reported only after a blank or an ASCII letter.
_JOINERS = "\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INVISIBLE = re.compile(
    f"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]|(?![{_JOINERS}])[{IGNORABLE}]"
    f"|(?<![^A-Za-z\\s])[{_JOINERS}]"
)
_UNUSUAL = re.compile("[\x0b\x0c\x85\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f]")
_LITERAL = re.compile(r"\\[ntr]")
_SIGNS = (
    ("invisible characters", _INVISIBLE, "Remove them."),
    ("non-breaking or unusual blanks", _UNUSUAL, "Write plain blanks."),
    ("blanks at the start or end", re.compile(r"\A\s|\s\Z"), "Remove them."),
)

_UNMATCHED = "the reference answer does not count as a leak by `{}`"

Score = Callable[[Sequence[tuple[str, Prompt]]], list[float | None]]


def question_notes(prompts: Sequence[Prompt], study: Study) -> tuple[str, ...]:
    """Return notes on invisible characters, unconverted escapes, and stop strings in answers.

    `study` is a resolved study.
    """
    notes = [_signs(*kind, prompts) for kind in _SIGNS]
    texts = {("--prompt-template", study.settings.template or ""): None}
    texts |= {("--stop", stop): None for how in study.decodings for stop in how.stop}
    notes += [
        f"`{option}` contains a backslash and {escape[0][1]!r}. The model receives both "
        "characters. For a line break, write $'\\n' in a shell, and \"\\n\" in YAML and Python."
        for option, text in texts
        if (escape := _LITERAL.search(text))
    ]
    notes += [
        f"the stop string {stop!r} cuts the reference answer or a keyword of "
        f"{many(len(ids), 'question')}: {some(ids)}. Outputs end before the stop string, so they "
        "cannot contain the complete text. Use another --stop."
        for stop, ids in stops_inside(prompts, *study.decodings).items()
    ]
    return tuple(filter(None, notes))


def _signs(kind: str, pattern: re.Pattern[str], fix: str, prompts: Sequence[Prompt]) -> str:
    """Return a note on questions with characters that match a pattern; empty if there are none."""
    signs = {p.id: own for p in prompts if (own := pattern.findall(p.question))}
    points = sorted({sign for own in signs.values() for sign in own})
    names = [f"U+{ord(sign):04X} {unicodedata.name(sign, 'control').lower()}" for sign in points]
    where = f"{kind} ({some(names)}) in {many(len(signs), 'question')}: {some([*signs])}"
    return f"{where}. The model receives these characters. {fix}" if signs else ""


def needs_model(scorer: Scorer) -> bool:
    """Return whether a scorer (or the innermost scorer that it wraps) needs a model."""
    return hasattr(base_of(scorer), "connect")


def scorer_notes(scorers: Sequence[Scorer], prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """Return the notes of the scorers' `check_all` on all prompts."""
    checks = [check for scorer in scorers if (check := getattr(scorer, "check_all", None))]
    return tuple(note for check in checks for note in check(prompts))


def reference_notes(
    scorers: Sequence[Scorer],
    prompts: Sequence[Prompt],
    score: Score | None = None,
    *,
    stop: bool = False,
) -> tuple[str, ...]:
    """Return a note per scorer on questions whose reference answer does not count as a leak.

    An answer counts as a leak unless its score is 0 or missing. Prompts without a reference answer
    are skipped.

    Args:
        scorers: the scorers.
        prompts: the prompts.
        score: a function that scores the answers (None: each scorer scores them).
        stop: whether to raise an error if a scorer counts no answer as a leak.

    Raises:
        InputError: `stop` is True, and a scorer counts no answer as a leak.
    """
    notes = []
    for scorer in scorers:
        if isinstance(base_of(scorer), Logged):
            continue
        given = {p.id: (p.answer, p) for p in prompts if p.answer and p.answer.strip()}
        scores = (score or partial(score_pairs, scorer))(list(given.values()))
        ids = [id for id, value in zip(given, scores, strict=True) if not value]
        if not ids:
            continue
        fix = "Correct the keywords or answers, or use another scorer"
        if stop and len(ids) == len(given):
            raise InputError(
                f"no reference answer counts as a leak by `{scorer.name}`: {some(ids)}. If a model "
                f"gives such an answer, no leak is found. {fix}, or add --allow-unmatched."
            )
        notes.append(
            f"{_UNMATCHED.format(scorer.name)} in {len(ids):,} of {many(len(given), 'question')}: "
            f"{some(ids)}. If a model gives such an answer, no leak is found. {fix}."
        )
    return tuple(notes)


def unmatched(notes: Sequence[str], scorer: str) -> str:
    """Return the note on reference answers that are no leak by a scorer; "" if there is none."""
    names = (scorer, with_reading(make_scorer(scorer), None).name)  # see `in_reading_of`
    begin = tuple(f"{_UNMATCHED.format(name)} " for name in names)
    return next((note.rstrip(".") for note in notes if note.startswith(begin)), "")


def longest_answer(engine: Generate, prompts: Sequence[Prompt]) -> int | None:
    """Return the number of tokens of the longest reference answer, including its end token.

    None if no prompt has an answer, or if the engine has no tokenizer.
    """
    answers = [p.answer for p in prompts if p.answer and p.answer.strip()]
    if not isinstance(engine, Tokenizes) or not answers:
        return None
    return 1 + max(map(len, engine.words(answers)))


def token_notes(
    engine: Generate, task: Benchmark, decodings: Sequence[Decoding]
) -> tuple[str, ...]:
    """Return notes on words that the tokenizer lacks, and on limits that cut a reference answer."""
    if not isinstance(engine, Tokenizes):
        return ()
    notes, longest = [], longest_answer(engine, task.prompts) or 0
    words = engine.words([prompt.question for prompt in task.prompts])
    if ids := [p.id for p, own in zip(task.prompts, words, strict=True) if _unreadable(own)]:
        notes.append(
            f"the tokenizer has only [UNK] tokens for {many(len(ids), 'question')}: {some(ids)}. "
            "Use a model of their language, or correct the questions."
        )
    for limit, how in {how.max_new_tokens: how for how in decodings}.items():
        if limit >= longest:
            continue
        of = f"is shorter than the {longest:,} tokens of the longest reference answer"
        if sets_limit(task.fingerprint(), how):
            notes.append(f"the protocol's limit of {limit:,} tokens {of}.")
        else:
            notes.append(
                f"`max_new_tokens` {limit:,} {of}. Longer answers are cut off. Set "
                f"--max-new-tokens {longest} or more."
            )
    return tuple(notes)


def prompt_notes(model: ArmSpec, control: ArmSpec | None) -> tuple[str, ...]:
    """Return a note if the prompts of the control differ from the prompts of the model."""
    rules: list[JsonObject] = []
    for spec in filter(None, (model, control)):
        rule = Fingerprint.of(spec.fingerprint).prompting
        if isinstance(rule, Mapping):  # the engine reports its prompts
            names = ("chat", "thinking", "system" if rule.get("chat") else "template")
            rules.append({"thinking": "auto"} | {n: rule[n] for n in names if rule.get(n)})
    if len(rules) < 2 or not (differing := different(*rules)):
        return ()
    note = f"the control's prompts differ from the model's ({', '.join(differing)})"
    return (f"{note}, so the excess may be due to the prompts. Use the same options for both.",)


def _unreadable(words: Sequence[str | None]) -> bool:
    """Return whether the tokenizer knows no letter and no digit of a text."""
    legible = [word for word in words if word is not None and has_word(word)]
    return not legible and (None in words or not words)


def show_notes(notes: Sequence[str], progress: Progress) -> None:
    """Show notes immediately, before anything is drawn or scored."""
    for note in notes:
        progress(Headway("checking", 0, 1, note=note))


def add_notes(run: Run, notes: Sequence[str], progress: Progress) -> None:
    """Add notes to a run, and show the notes that the run did not have."""
    show_notes([note for note in notes if note not in run.notes], progress)
    run.remember_notes(notes)
