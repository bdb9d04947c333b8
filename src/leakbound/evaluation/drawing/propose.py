"""Who proposes texts from which a search for rare leaks begins, beside the run itself.

A run proposes what its models said. A model proposes draws: another one of the question in its own
words, or the model under evaluation of the question right after it was shown question and answer.
These draws are a run of their own, in the folder `proposals` of the run they serve, and never
bounded: which texts are tried follows from them, what is proved by a text does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakbound.engines.servers import server_of
from leakbound.errors import InputError
from leakbound.evaluation.drawing.said import shared_prompts
from leakbound.evaluation.drawing.sample import finished_run, plan_unscored, sample_arm
from leakbound.evaluation.planning.models import ModelArm
from leakbound.store import Arm, Run
from leakbound.store.sealed import digest_of
from leakbound.study import Prove
from leakbound.types import Generate, JsonObject, Progress, Query, renamed, silent

PURPOSE = FOLDER = "proposals"
DRAWS = 256  # of every question, of a model that is named
SHOWN_DRAWS = 64  # and of the model itself, shown the answer: these are longer to draw
_KEY = 12  # characters of a digest that name a folder


@dataclass(frozen=True, slots=True)
class Proposer:
    """A model that is drawn from so that a search for rare leaks has where to begin.

    shows: whether each question comes right after itself and its answer.
    """

    name: str
    engine: Generate
    shows: bool
    seed: int

    @property
    def draws(self) -> int:
        """Of every question."""
        return SHOWN_DRAWS if self.shows else DRAWS


def require_proposals(run: Run, engine: Generate, asked: Prove) -> None:
    """Refuse, before a model draws anything, runs and models that cannot propose to this one.

    Raises InputError for a run about none of the questions, and for a model behind a server or
    with another tokenizer.
    """
    for name in asked.named:
        if (source := finished_run(name)) is not None:
            shared_prompts(run, Run.open(source))
            continue
        if server_of(name) is not None:
            raise InputError(
                f"`{name}` cannot propose: a server does not tell its tokenizer. Evaluate it, and "
                "name the finished run."
            )
        require_same_tokenizer(name, _tokenizer_of(name), engine)


def require_same_tokenizer(name: str, tokenizer: object, engine: Generate) -> None:
    """Refuse a proposing model whose tokenizer, by its digest, is not that of the engine."""
    own = engine.fingerprint.get("tokenizer")
    if own is None or tokenizer != own:
        raise InputError(
            f"the model `{name}` that is to propose has another tokenizer ({_short(tokenizer)}) "
            f"than the model under evaluation ({_short(own)}), so its outputs are none of that "
            f"model. Name one with the same tokenizer, or evaluate `{name}` and name the finished "
            "run: its texts are read with the tokenizer of the model under evaluation."
        )


def open_proposal(name: str, opens: Callable[[str], Generate], engine: Generate) -> Generate:
    """The model that is to propose, open; InputError where its tokenizer is another."""
    opened = opens(name)
    require_same_tokenizer(name, opened.fingerprint.get("tokenizer"), engine)
    return opened


def proposals(
    run: Run,
    arms: Sequence[Arm],
    engine: Generate,
    asked: Prove,
    opens: Callable[[str], Generate],
    progress: Progress = silent,
) -> list[Run]:
    """The runs of what is proposed for these arms of `engine`; models draw what is missing of it.

    `opens` opens a model by its name; one at a time is open beside `engine`.
    """
    found = []
    for name in asked.named:
        if (source := finished_run(name)) is not None:
            found.append(Run.open(source))
            continue
        proposer = Proposer(name, open_proposal(name, opens, engine), False, arms[0].spec.seed or 0)
        found.append(_drawn(run, arms, proposer, progress))
        del proposer
    if asked.shows_answers:
        itself = Proposer(arms[0].spec.model, engine, True, arms[0].spec.seed or 0)
        found.append(_drawn(run, arms, itself, progress))
    return [each for each in found if each.queries]


def _drawn(run: Run, arms: Sequence[Arm], proposer: Proposer, progress: Progress) -> Run:
    """The run of a model's proposals, begun or as it was left, all of it drawn."""
    told = renamed(progress, lambda phase: "drawing proposals")
    queries = list(_queries(run, proposer, arms))
    record = replace(run.record, attack=None, study={}, notes=())
    trial = Run.create(_folder(run, proposer), run.prompts, queries, record)
    draws = {query.id: proposer.draws for query in queries}
    for arm in arms if queries else ():
        job = ModelArm(arm.key, arm.decoding, proposer.name, proposer.engine)
        drawn = plan_unscored(trial, job, draws, proposer.seed)
        sample_arm(drawn, proposer.engine, told, purpose=PURPOSE)
    return trial


def _folder(run: Run, proposer: Proposer) -> Path:
    """Where a proposer's draws are: what they depend on names it, and decodings their arms."""
    made_by: JsonObject = {
        "fingerprint": proposer.engine.fingerprint,
        "shows": proposer.shows,
        "draws": proposer.draws,
        "seed": proposer.seed,
    }
    return run.path / FOLDER / digest_of(made_by)[:_KEY]


def _queries(run: Run, proposer: Proposer, arms: Sequence[Arm]) -> Iterator[Query]:
    """What is asked of a proposer, where it fits its context: with an answer, if that is shown."""
    for prompt in run.prompts:
        query = Query.original(prompt)
        if proposer.shows:
            if not (prompt.answer and prompt.answer.strip()):
                continue
            shown = (*query.examples, (prompt.question, prompt.answer))
            query = replace(query, examples=shown)
        if all(_fits(proposer.engine, query, arm) for arm in arms):
            yield query


def _fits(engine: Generate, query: Query, arm: Arm) -> bool:
    try:
        engine.check([query], arm.decoding)
    except InputError:
        return False
    return True


def _tokenizer_of(model: str) -> str:
    """The digest of a model's tokenizer, without reading its weights."""
    from leakbound.engines.fingerprint import tokenizer_digest  # torch loads when a model does
    from leakbound.engines.loading import Checkpoint

    return tokenizer_digest(Checkpoint.open(model, device="cpu").tokenizer)


def _short(digest: object) -> str:
    return "none is known" if digest is None else str(digest)[:_KEY]
