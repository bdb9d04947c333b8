"""What models said to a question, in whatever run: texts from which a search for leaks begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from leakbound.errors import InputError
from leakbound.evaluation.drawing.sample import finished_run
from leakbound.evaluation.scoring.checks import require_sampled
from leakbound.store import Arm, Run


def said_by(run: Run, others: Sequence[Run]) -> dict[str, Counter[str]]:
    """By prompt id what any arm of these runs says, and how often; `others` of equal prompts alone.

    InputError where one of the others asked none of the run's prompts.
    """
    found: dict[str, Counter[str]] = {}
    for each in (run, *others):
        shared = shared_prompts(run, each)
        require_sampled(each)
        for name, said in said_in(each.arms.values()).items():
            if name in shared:
                found.setdefault(name, Counter()).update(said)
    return found


def named_runs(run: Run, names: Iterable[str]) -> list[Run]:
    """The finished runs of these names, which asked questions of this run.

    Raises InputError for a name that is no run, and for a run about none of the questions.
    """
    found = []
    for name in names:
        if (source := finished_run(name)) is None:
            raise InputError(
                f"`{name}` is no finished run, and models are not drawn from here any more: their "
                "draws added next to nothing to what is proved. Evaluate it on the same "
                f"questions, `leakbound evaluate {name} --out RUN …`, and name that run."
            )
        found.append(Run.open(source))
        shared_prompts(run, found[-1])
    return found


def said_in(arms: Iterable[Arm]) -> dict[str, Counter[str]]:
    """By prompt id what these arms say, and how often."""
    found: dict[str, Counter[str]] = {}
    for arm in arms:
        prompt_of = {query.id: query.prompt_id for query in arm.queries}
        for query_id, text, count in _texts(arm) if arm.texts else ():
            found.setdefault(prompt_of[query_id], Counter())[text] += count
    return found


def shared_prompts(run: Run, other: Run) -> frozenset[str]:
    """The ids of the prompts that both asked alike; InputError where there are none."""
    ours = {prompt.id: (prompt.question, prompt.answer) for prompt in run.prompts}
    theirs = {prompt.id: (prompt.question, prompt.answer) for prompt in other.prompts}
    shared = frozenset(name for name, asked in ours.items() if theirs.get(name) == asked)
    if not shared:
        raise InputError(
            f"`{other.path}` asked none of the questions of `{run.path}`, so no answer of it is "
            "one to these. Name a run on the same benchmark."
        )
    return shared


def _texts(arm: Arm) -> Iterator[tuple[str, str, int]]:
    for part in arm.parts:
        table = arm.completions(part)
        columns = (table[name].to_pylist() for name in ("query_id", "text", "count"))
        yield from zip(*columns, strict=True)
    for table in arm.masses.tables():
        ended = table.filter(table["ended"])
        columns = (ended[name].to_pylist() for name in ("query_id", "text"))
        yield from ((query_id, text, 1) for query_id, text in zip(*columns, strict=True))
