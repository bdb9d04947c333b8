"""Profile `openunlearning` against that framework's definitions, run on the same tiny models."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from leakbound.benchmarks import Benchmark
from leakbound.benchmarks.profiles import profiles, with_profile
from leakbound.engines.hf import TransformersEngine
from leakbound.evaluation import evaluate
from leakbound.study import ModelSettings
from leakbound.types import Decoding, Draws, Prompt, Query, Role
from offline_tokenizers import CHATML, LLAMA_2, LLAMA_3, byte_level, sentence_piece
from openunlearning import LLAMA_2_CHAT, PLAIN, SYSTEM, Oracle
from tiny import tiny_llama

NEW_TOKENS = 6
WORDS = ("the sea", "Ann", "Question 7", "who's who", "wrote", "a sky.", "it was", "You", "naïve")
SIDES: dict[str, Role] = {
    "forget": "forget",
    "retain": "retain",
    "holdout": "holdout",
    "real_authors": "retain",
    "world_facts": "retain",
}


def prompts(part: str) -> tuple[Prompt, ...]:
    rng = np.random.default_rng([*part.encode()])

    def words() -> str:
        return " ".join(rng.permutation(WORDS)[: rng.integers(2, 7)])

    return tuple(
        Prompt(
            id=f"{part}{i}",
            question=f"who wrote {words()}?",
            answer=words(),
            split=part,
            role=SIDES[part],
            paraphrased_answer=words(),
            perturbed_answers=(words(), words(), words()),
        )
        for i in range(3)
    )


PARTS: dict[str, Sequence[Prompt]] = {part: prompts(part) for part in SIDES}
TASK = with_profile(
    Benchmark(
        name="mine",
        prompts=PARTS["forget"],
        others={role: partial(prompts, role) for role in ("retain", "holdout")},
        utility={part: partial(prompts, part) for part in ("real_authors", "world_facts")},
        scorers=("rouge-l-recall",),
        max_new_tokens=NEW_TOKENS,
        system=SYSTEM,
        origin="",
    ),
    profiles()["openunlearning"],
)


@dataclass(frozen=True)
class Case:
    """A kind of model: its tokenizer, its prompt format, whether its embeddings are tied."""

    tokenizer: Any
    template: str | None
    tied: bool

    def save(self, folder: Path, seed: int) -> Path:
        model = tiny_llama(
            len(self.tokenizer),
            seed,
            tie_word_embeddings=self.tied,
            initializer_range=0.2,
            max_position_embeddings=512,
            eos_token_id=self.tokenizer.eos_token_id,
            pad_token_id=None,
        )
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return folder

    def oracle(self, folder: Path) -> Oracle:
        model = AutoModelForCausalLM.from_pretrained(folder).eval()
        return Oracle(model, AutoTokenizer.from_pretrained(folder), NEW_TOKENS, self.template)


CASES = {
    "chatml, tied": Case(byte_level(CHATML), None, True),
    "chatml, untied": Case(byte_level(CHATML), None, False),
    "llama-3, tied": Case(byte_level(LLAMA_3, "<|eot_id|>"), None, True),
    "llama-2-chat, untied": Case(sentence_piece(LLAMA_2), LLAMA_2_CHAT, False),
    "byte-level base, untied": Case(byte_level(), PLAIN, False),
    "byte-level base, tied": Case(byte_level(), PLAIN, True),
    "sentence-piece base, tied": Case(sentence_piece(), PLAIN, True),
}


def cases(quick: Collection[str], mark: pytest.MarkDecorator) -> list[Any]:
    """Return the names of all cases; slow cases have a mark."""
    return [pytest.param(name, marks=[mark] * (name not in quick)) for name in CASES]


def measured(out: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return each stored metric of a run: its value, and the values of its items."""
    got = json.loads((out / "utility.json").read_text())["arms"]["target"]["metrics"]
    return dict(got)


@pytest.mark.parametrize("name", cases(["chatml, tied"], pytest.mark.slow))
def test_every_metric_is_theirs(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder, retrained = case.save(tmp_path / "m", 3), case.save(tmp_path / "r", 4)
    out = tmp_path / "run"
    evaluate(str(folder), TASK, control=str(retrained), n=2, metrics=["all"], out=out)
    stored, model = measured(out), case.oracle(folder)
    got = {name: metric["value"] for name, metric in stored.items()}
    wanted = model.metrics(PARTS) | model.against(case.oracle(retrained), PARTS)
    assert {name: got[name] for name in wanted} == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    for name, (forget, holdout) in model.attacks(PARTS).items():  # their AUCs are coarse
        scores = [*stored[name]["by_item"].values()]
        assert scores == pytest.approx([*forget, *holdout], rel=1e-4), name
    beyond = ("entropy", "confidence", "self_bleu", "distinct_share", "r_avg")
    assert [name for name in got if name not in wanted and not name.endswith(beyond)] == []


READ = CASES.keys() - {"chatml, untied", "llama-3, tied", "byte-level base, untied"}


@pytest.mark.parametrize("name", cases(READ, pytest.mark.thorough))
def test_every_token_and_every_greedy_answer_is_theirs(name: str, tmp_path: Path) -> None:
    """Metrics that are all 0 would agree for any reading."""
    case = CASES[name]
    folder = case.save(tmp_path / "m", 5)
    model, engine = case.oracle(folder), ModelSettings().open(str(folder), TASK)
    assert isinstance(engine, TransformersEngine)
    texts = [
        (Query.original(p), text)
        for p in PARTS["forget"]
        for text in (p.answer, *p.perturbed_answers)
    ]
    for (query, text), read in zip(texts, engine.read(texts), strict=True):
        theirs = model.scored(query.text, str(text))
        assert -read.logprobs.mean() == pytest.approx(theirs.loss, abs=1e-5)
        assert read.logprobs[:-1] == pytest.approx(theirs.logprobs.numpy(), abs=1e-5)
        assert read.top[:-1].tolist() == theirs.right
        assert read.text == theirs.text
    greedy = Decoding(temperature=0, max_new_tokens=NEW_TOKENS)
    queries = [Query.original(prompt) for prompt in PARTS["forget"]]
    for sample in engine.generate(queries, greedy, Draws(sizes=(1,))):
        assert sample.completions[0].answer.strip() == model.answer(sample.query.text)
