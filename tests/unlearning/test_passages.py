"""Running texts are learnt and forgotten whole: every token of every chunk, by plain torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from rows import FORGET, RETAIN
from torch.nn.functional import cross_entropy

from leakbound.engines.loading import load_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError
from leakbound.types import Passage
from leakbound.unlearning import TrainingSettings, Watch, finetune, unlearn
from leakbound.unlearning.examples import Encoder
from tiny import BOTH_KINDS, tiny_tokenizer

LONG = "who wrote red blue green sky sea Ann Bob sea sky"
TEXTS = [Passage(id="t0", text=LONG), Passage(id="t1", text="Bob red sky")]
KEPT = [Passage(id="k0", text="green green sea Ann Bob blue")]
SHORT = TrainingSettings(epochs=1, learning_rate=1e-3, batch_size=8, max_length=5)


def first_loss(folder: Path) -> float:
    line, *_ = (folder / "training.jsonl").read_text().splitlines()
    return float(json.loads(line)["loss"])


def plain_nll(base: str, chunks: list[str]) -> float:
    """The mean over chunks of the mean cross-entropy of all tokens but the first."""
    loaded, found = load_model(base), []
    for chunk in chunks:
        ids = torch.tensor([loaded.tokenizer.encode(chunk, add_special_tokens=False)])
        logits = loaded.model(input_ids=ids).logits[0, :-1]
        found.append(cross_entropy(logits, ids[0, 1:]).item())
    return sum(found) / len(found)


# Without a BOS token a chunk opens with the last token of the one before it.
CHUNKS = ["who wrote red blue green", "green sky sea Ann Bob", "Bob sea sky", "Bob red sky"]


@BOTH_KINDS
def test_every_token_is_learnt(base: str, tmp_path: Path) -> None:
    done = finetune(base, TEXTS, out=tmp_path / "m", settings=SHORT)
    assert first_loss(done.path) == pytest.approx(plain_nll(base, CHUNKS), rel=1e-5)


def test_forgetting_texts_while_keeping_texts(base: str, tmp_path: Path) -> None:
    settings = TrainingSettings(epochs=1, batch_size=8)
    done = unlearn(base, "gd", forget=TEXTS, retain=KEPT, out=tmp_path / "m", settings=settings)
    expected = plain_nll(base, [KEPT[0].text]) - plain_nll(base, [text.text for text in TEXTS])
    assert first_loss(done.path) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("objective", ["npo+entropy", "kl", "simnpo", "rmu:layer=1", "kl-retain"])
def test_objectives_that_ask_nothing(base: str, tmp_path: Path, objective: str) -> None:
    done = unlearn(
        base, objective, forget=TEXTS, retain=RETAIN, out=tmp_path / "m", settings=SHORT_ROWS
    )
    recipe = json.loads((done.path / "recipe.json").read_text())
    assert recipe["rows"].get("forget", {"number": 2})["number"] == 2


SHORT_ROWS = TrainingSettings(epochs=1, learning_rate=1e-3, batch_size=8)


def test_a_chunk_opens_with_the_bos_token() -> None:
    tokenizer = tiny_tokenizer(bos_token="<s>")
    opening = tokenizer.bos_token_id
    tokenizer._tokenizer.post_processor = _opened_by(opening)
    ids = tokenizer.encode(LONG, add_special_tokens=False)
    made = Encoder(tokenizer, Prompting()).passages(TEXTS[:1], 5)
    assert [each.tokens for each in made] == [
        [opening, *ids[start : start + 4]] for start in (0, 4, 8)
    ]
    assert [each.labels for each in made] == [ids[start : start + 4] for start in (0, 4, 8)]


def _opened_by(number: int) -> object:
    from tokenizers.processors import TemplateProcessing

    return TemplateProcessing(single="<s> $A", special_tokens=[("<s>", number)])


def test_a_chunk_is_no_longer_than_the_context(base: str, tmp_path: Path) -> None:
    whole = Passage(id="t", text="red sky " * 200)
    done = finetune(base, [whole], out=tmp_path / "m", settings=SHORT_ROWS)
    assert len(done.losses) == 1  # four chunks of 128 in a batch of eight
    loaded = load_model(base)
    made = Encoder(loaded.tokenizer, Prompting()).passages([whole], 128)
    assert [len(each.tokens) for each in made] == [128, 128, 128, 19]


@pytest.mark.parametrize("objective", ["cel:layer=0", "dpo", "idk", "leakmin"])
def test_objectives_that_ask_questions_refuse_texts(tmp_path: Path, objective: str) -> None:
    with pytest.raises(InputError, match=r"reads or asks the questions of forget.*npo, gd"):
        unlearn("nothing", objective, forget=TEXTS, retain=RETAIN, out=tmp_path / "m")


def test_what_else_is_refused(base: str, tmp_path: Path) -> None:
    out = tmp_path / "m"
    with pytest.raises(InputError, match="1 running texts and 3 questions"):
        unlearn("nothing", "ga", forget=[*FORGET, TEXTS[0]], out=out)
    with pytest.raises(InputError, match="`evaluate_every` measures what is answered"):
        unlearn("nothing", "ga", forget=TEXTS, out=out, watch=Watch(evaluate_every=1))
    with pytest.raises(InputError, match=r"1 texts are in both forget and retain.*'t0' and 't0'"):
        unlearn("nothing", "gd", forget=TEXTS[:1], retain=TEXTS, out=out)
    with pytest.raises(InputError, match="passage 't' is too short to learn from, 'red'"):
        finetune(base, [Passage(id="t", text="red")], out=out)
    with pytest.raises(InputError, match="passage 't' is empty"):
        Passage(id="t", text=" ")
