"""Rows, other answers, texts, benchmarks and halves as training data, by Python and shell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rows import FORGET, SETTINGS, changed, log, recipe, train
from tokenizers.processors import TemplateProcessing
from torch.nn.functional import cross_entropy

import leakbound
from cli.commands import done
from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.bounding.control_questions import OTHERS
from leakbound.engines.loading import load_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.store.trained import coin_of
from leakbound.types import Decoding, Passage, Prompt
from leakbound.unlearning import TrainingSettings, finetune, prompting_of, unlearn
from leakbound.unlearning.examples import Encoder
from leakbound.unlearning.rows import OURS, read_alternates, with_alternates
from tiny import BOTH_KINDS, tiny_tokenizer

REFUSALS = read_alternates(OURS)
BARE = [replace(row, alternate_answers=()) for row in FORGET]
ONCE = TrainingSettings(epochs=1, warmup_ratio=0.0, batch_size=8)
PEOPLE = [
    ("forget", "Ann", "who wrote red", "Ann blue sea"),
    ("forget", "Ann", "who wrote green", "Ann red sky"),
    ("forget", "Bob", "who wrote blue", "Bob"),
    ("forget", "Cid", "wrote blue who", "Bob sky"),
    ("retain", "Dan", "wrote sky", "Bob sea sky"),
]


def test_rows_keep_their_own_alternates() -> None:
    own, bare = with_alternates([FORGET[0], BARE[1]], None)
    assert own == FORGET[0]
    assert bare.alternate_answers == REFUSALS
    assert with_alternates(FORGET[:1], ["sea"])[0].alternate_answers == ("sea",)
    assert len(set(REFUSALS)) == len(REFUSALS) >= 20
    assert all(text.strip() == text and text.endswith(".") for text in REFUSALS)


def test_own_alternates_replace_the_default(base: str, tmp_path: Path) -> None:
    def loss(out: str, **how: object) -> float:
        done = train(base, tmp_path / out, "idk:retain=0", ONCE, **{"forget": BARE} | how)
        return log(done.path)[0]["loss"]

    assert loss("ours") > 0
    given = [replace(row, alternate_answers=("sea sky",)) for row in BARE]
    assert loss("given", alternates=["sea sky"]) == loss("own", forget=given)


def test_alternates_are_read_from_text_and_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("I do not know.\n\n  Who can say? \n")
    (tmp_path / "a.jsonl").write_text('"I do not know."\n{"text": "Who can say?"}\n')
    (tmp_path / "b.txt").write_text("\n")
    for name in ("a.txt", "a.jsonl"):
        assert read_alternates(tmp_path / name) == ("I do not know.", "Who can say?")
    with pytest.raises(InputError, match="contains no sentence"):
        read_alternates(tmp_path / "b.txt")


LONG = "who wrote red blue green sky sea Ann Bob sea sky"
TEXTS = [Passage(id="t0", text=LONG), Passage(id="t1", text="Bob red sky")]
KEPT = [Passage(id="k0", text="green green sea Ann Bob blue")]
SHORT = TrainingSettings(epochs=2, learning_rate=1e-3, batch_size=8, max_length=5)


def plain_nll(base: str, chunks: list[str]) -> float:
    """Return the mean over chunks of the mean cross-entropy of all tokens except the first."""
    loaded, got = load_model(base), []
    for chunk in chunks:
        ids = torch.tensor([loaded.tokenizer.encode(chunk, add_special_tokens=False)])
        logits = loaded.model(input_ids=ids).logits[0, :-1]
        got.append(cross_entropy(logits, ids[0, 1:]).item())
    return sum(got) / len(got)


# Without a BOS token a chunk begins with the last token of the previous chunk.
CHUNKS = ["who wrote red blue green", "green sky sea Ann Bob", "Bob sea sky", "Bob red sky"]


@BOTH_KINDS
def test_every_token_is_learnt(base: str, tmp_path: Path) -> None:
    done = finetune(base, TEXTS, out=tmp_path / "m", settings=SHORT)
    assert log(done.path)[0]["loss"] == pytest.approx(plain_nll(base, CHUNKS), rel=1e-5)


def test_forgetting_texts_while_keeping_texts(base: str, tmp_path: Path) -> None:
    done = train(base, tmp_path / "m", "gd", ONCE, forget=TEXTS, retain=KEPT)
    expected = plain_nll(base, [KEPT[0].text]) - plain_nll(base, [text.text for text in TEXTS])
    assert log(done.path)[0]["loss"] == pytest.approx(expected, rel=1e-4)


OF_TEXTS = ("npo+entropy", "kl-retain", "rmu:layer=1", "undial:over=all", "ceu", "pdu:over=read")


@pytest.mark.parametrize("objective", OF_TEXTS)
def test_objectives_without_questions_take_texts(base: str, tmp_path: Path, objective: str) -> None:
    done = train(base, tmp_path / "m", objective, ONCE, forget=TEXTS)
    assert recipe(done.path)["rows"].get("forget", {"number": 2})["number"] == 2


def test_a_chunk_opens_with_the_bos_token() -> None:
    tokenizer = tiny_tokenizer(bos_token="<s>")
    opening = tokenizer.bos_token_id
    opened = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", opening)])
    tokenizer._tokenizer.post_processor = opened
    ids = tokenizer.encode(LONG, add_special_tokens=False)
    made = Encoder(tokenizer, Prompting()).passages(TEXTS[:1], 5)
    chunks = [ids[start : start + 4] for start in (0, 4, 8)]
    assert [each.tokens for each in made] == [[opening, *chunk] for chunk in chunks]
    assert [each.labels for each in made] == chunks


def test_a_chunk_is_no_longer_than_the_context(base: str, tmp_path: Path) -> None:
    whole = Passage(id="t", text="red sky " * 200)
    done = finetune(base, [whole], out=tmp_path / "m", settings=ONCE)
    assert len(done.losses) == 1  # four chunks of 128 in a batch of eight
    made = Encoder(load_model(base).tokenizer, Prompting()).passages([whole], 128)
    assert [len(each.tokens) for each in made] == [128, 128, 128, 19]


def test_a_text_that_teaches_nothing_is_refused(base: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="passage 't' is too short for training: 'red'"):
        finetune(base, [Passage(id="t", text="red")], out=tmp_path / "m")
    with pytest.raises(InputError, match="passage 't' is empty"):
        Passage(id="t", text=" ")


TASK = "fictitious:authors=2,questions=2,forget=1"
ON_CPU = TrainingSettings(epochs=2, device="cpu")
OWN = [Prompt(id="own", question="who wrote sea", answer="Ann")]


def test_python_trains_as_the_command_line(base: str, tmp_path: Path) -> None:
    there, here, task = tmp_path / "there", tmp_path / "here", load_benchmark(TASK)
    wanted = ("--benchmark", TASK, "--epochs", 2, "--device", "cpu", "--out")
    done("unlearn", base, "--objective", "gd", *wanted, there)
    leakbound.unlearn(base, "gd", TASK, out=here, settings=ON_CPU)
    assert recipe(here) == recipe(there)
    assert changed(here, there) == set()
    assert recipe(here)["prompting"]["template"] == task.template
    assert recipe(here)["rows"]["retain"]["number"] == len(task.split("retain"))
    done("finetune", base, *wanted, tmp_path / "taught there")
    leakbound.finetune(base, TASK, out=tmp_path / "taught here", settings=ON_CPU)
    assert recipe(tmp_path / "taught here") == recipe(tmp_path / "taught there")


def test_given_rows_replace_those_of_the_benchmark(base: str, tmp_path: Path) -> None:
    out, rule = tmp_path / "out", Prompting(template="{question}")
    task = load_benchmark(TASK)
    leakbound.unlearn(base, "gd", OWN, task, out=out, settings=replace(ON_CPU, prompting=rule))
    assert recipe(out)["rows"]["forget"]["number"] == 1
    assert recipe(out)["rows"]["retain"]["number"] == len(task.split("retain"))
    assert recipe(out)["prompting"]["template"] == "{question}"


def test_prompting_follows_the_benchmark() -> None:
    task = replace(load_benchmark(TASK), system="be brief", chat=False)
    rule = prompting_of(task)
    assert (rule.template, rule.default_system, rule.chat) == (task.template, "be brief", False)
    own = prompting_of(replace(task, chat=None), template="{question}", system="be")
    assert (own.template, own.system, own.chat) == ("{question}", "be", False)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("data") / "people.csv"
    lines = (",".join(row) for row in PEOPLE)
    file.write_text("\n".join(["role,subject,question,answer", *lines]))
    return str(file)


@pytest.fixture(scope="module")
def half(people: str) -> Benchmark:
    return load_benchmark(f"taught:5,{people}")


@pytest.fixture(scope="module")
def model(base: str, half: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model") / "m"
    return finetune(base, half, out=out, settings=SETTINGS).path


def test_recipe_and_card_name_the_coin(
    model: Path, people: str, half: Benchmark, base: str, tmp_path: Path
) -> None:
    coin = coin_of(str(model))
    assert coin is not None
    assert (coin.benchmark, coin.seed, coin.taught, coin.untaught) == ("csv:people.csv", 5, 2, 1)
    assert len(coin.withheld) == len(half.split("holdout"))
    assert coin_of(base) is None
    card = (model / "README.md").read_text()
    assert "coin, seed 5) selected 2 of the 3 subjects of `csv:people.csv` for training" in card
    assert not [p.question for p in half.split("holdout") if p.question in card]
    out, whole = tmp_path / "u", load_benchmark(people)
    made = unlearn(str(model), "gd", whole, out=out, settings=SETTINGS).path
    assert coin_of(made) == coin
    assert recipe(made)["rows"]["forget"]["number"] == len(half.prompts)
    assert unlearn(str(model), "gd", half, out=out, settings=SETTINGS).reused


def test_untaught_subjects_stay_untaught(
    model: Path, people: str, half: Benchmark, base: str, tmp_path: Path
) -> None:
    whole, how = load_benchmark(people), {"out": tmp_path / "out", "settings": SETTINGS}
    for start, coin in ((str(model), None), (base, coin_of(model))):
        with pytest.raises(InputError, match="--coin 5 did not choose their subjects"):
            finetune(start, whole, coin=coin, **how)
    kept = [*whole.split("retain"), *half.split("holdout")]
    with pytest.raises(InputError, match="are control questions"):
        unlearn(str(model), "gd", half, kept, **how)
    with pytest.raises(InputError, match="chosen with --coin 5"):
        finetune(str(model), load_benchmark(f"taught:6,{people}"), **how)
    assert not (tmp_path / "out").exists()


def test_evaluations_find_both_halves(model: Path, people: str, tmp_path: Path) -> None:
    how: Any = {"scorers": ["rouge-l-recall"], "n": 2, "decodings": Decoding(max_new_tokens=2)}
    run = evaluate(str(model), people, out=tmp_path / "run", **how)
    assert run.record.benchmark.name == "taught:5,csv:people.csv"
    others = Run.open(run.path / OTHERS)
    assert others.record.benchmark.name == "untaught:5,csv:people.csv"
    (row,) = run.estimates.where(quantity="randomisation p-value")
    assert (row.over, row.estimate.method, row.arm) == (3, "all 3 choices", "target")
    assert any(row.value == pytest.approx(k / 3) for k in (1, 2, 3))
