"""Rows as tokens, in their order; one pass over all splits gives each loss its own inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rows import FORGET, RETAIN
from torch import Tensor

from leakbound.engines.prompting import Prompting
from leakbound.losses import IGNORED, Needs, Site, direction, sequence_nll
from leakbound.types import Prompt
from leakbound.unlearning.batches import Assembly
from leakbound.unlearning.centres import candidates
from leakbound.unlearning.examples import Encoder, Example, ExampleRows, pad, schedule
from leakbound.unlearning.forward import Forward
from leakbound.unlearning.reference import References, frozen_head
from tiny import BOTH_KINDS, tiny_llama, tiny_tokenizer


def test_rows_are_encoded_with_prefix_and_end() -> None:
    tokenizer = tiny_tokenizer()
    row = Prompt(id="a", question="who wrote", answer="Ann", prefix="blue ")
    example = Encoder(tokenizer, Prompting()).row(row)
    assert tokenizer.decode(example.prompt) == "Question: who wrote Answer: blue"
    assert tokenizer.convert_ids_to_tokens(example.answer) == ["Ann", "</s>"]


def test_padding_is_masked_by_position() -> None:
    # Token 0 is also the pad id: inside a row it is an ordinary token.
    padded = pad([Example((0, 3), (0, 2)), Example((4,), (2,))])
    assert padded.input_ids.tolist() == [[0, 3, 0], [4, 0, 0]]
    assert padded.attention_mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert padded.labels.tolist() == [[IGNORED, 0, 2], [2, IGNORED, IGNORED]]


def test_each_epoch_has_every_row_once() -> None:
    """The seed decides order and pairs, which are new in each epoch; no step crosses epochs."""
    steps, again, other = (
        schedule({"forget": 7, "retain": 50}, epochs=3, batch_size=3, seed=s) for s in (0, 0, 1)
    )
    assert steps == again != other
    sizes = [3, 3, 1] * 3
    for split in ("forget", "retain"):
        assert [len(step[split]) for step in steps] == sizes
        flat = [i for step in steps for i in step[split]]
        epochs = [flat[start : start + 7] for start in (0, 7, 14)]
        assert epochs[0] != epochs[1] != epochs[2]
        for epoch in epochs:
            assert set(epoch) <= set(range(50))
            assert split == "retain" or sorted(epoch) == list(range(7))


def test_rows_of_the_other_split_are_drawn_evenly() -> None:
    wide = schedule({"forget": 4000, "retain": 4}, epochs=1, batch_size=4000, seed=0)[0]["retain"]
    assert all(abs(wide.count(i) - 1000) < 150 for i in range(4))  # 5.5 standard deviations


ANSWER, QUESTION = Site(1, "answer"), Site(0, "question")
PARTS = "logits reference_nll reference_logits alternate whole reference centres direction"
EVERYTHING = Needs(frozenset(PARTS.split()), frozenset({ANSWER, QUESTION}))
STEP = {"forget": [2, 0], "retain": [1, 1]}
CPU = torch.device("cpu")


def encoded(prompts: list[Any]) -> ExampleRows:
    encoder = Encoder(tiny_tokenizer(), Prompting())
    alternates = [encoder.row(row, "sky sea") for row in prompts]
    centres = [encoder.centres(row, candidates(row)) for row in prompts]
    return ExampleRows(encoder.rows(prompts), {"alternate": alternates}, centres)


DATA = {"forget": encoded(FORGET), "retain": encoded(RETAIN)}


def alone(model: Any, example: Example) -> tuple[Tensor, list[Tensor]]:
    """Return the logits and the outputs of every block for one text, by transformers."""
    output = model(torch.tensor([example.tokens]), output_hidden_states=True)
    return output.logits[0], [hidden[0] for hidden in output.hidden_states[1:]]


def run(model: Any, needs: dict[str, Needs], frozen: Any = None, narrow: bool = True) -> Any:
    assembly = Assembly(DATA, needs, seed=3)
    batch = assembly.batch(STEP, frozen)
    forward = Forward(model, narrow, assembly.layers)
    logits, hidden = forward(batch.padded, batch.places.nonzero(as_tuple=True))
    return assembly.cut(batch, logits, hidden, lambda ends: ends), logits


@pytest.fixture(scope="module")
def model(embeddings: None) -> Any:
    return tiny_llama(14, num_hidden_layers=3)


@BOTH_KINDS
@pytest.mark.parametrize("narrow", [True, False])
def test_every_part_equals_that_of_a_single_row(model: Any, narrow: bool) -> None:
    made, _ = run(
        model, {"forget": EVERYTHING, "retain": Needs(frozenset({"logits"}))}, None, narrow
    )
    inputs = made["forget"]
    texts = [DATA["forget"].examples[i] for i in STEP["forget"]]
    logits = [alone(model, text)[0] for text in texts]
    hidden = [alone(model, text)[1] for text in texts]
    answers = [slice(len(text.prompt), None) for text in texts]
    predicting = [slice(len(text.prompt) - 1, -1) for text in texts]

    def joined(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts)

    close = torch.testing.assert_close
    close(inputs.logits, joined([x[s] for x, s in zip(logits, predicting, strict=True)]))
    assert inputs.labels.tolist() == [i for text in texts for i in text.answer]
    assert inputs.lengths.tolist() == [len(text.answer) for text in texts]
    close(inputs.whole.logits, joined(logits))
    assert inputs.whole.lengths.tolist() == [len(text.tokens) for text in texts]
    at = inputs.activations[ANSWER]
    close(at.values, joined([h[1][s] for h, s in zip(hidden, answers, strict=True)]))
    close(at.direction, direction(16, 3))
    others = [DATA["forget"].others["alternate"][i] for i in STEP["forget"]]
    expected = [alone(model, text)[0][len(text.prompt) - 1 : -1] for text in others]
    close(inputs.alternate.logits, joined(expected))
    assert made["retain"].labels.tolist() == [*DATA["retain"].examples[1].answer] * 2
    assert not made["retain"].activations


def test_question_tokens_are_the_questions_own(model: Any) -> None:
    made, _ = run(model, {"forget": EVERYTHING, "retain": Needs()})
    at = made["forget"].activations[QUESTION]
    assert torch.bincount(at.row).tolist() == [3, 3]  # "who wrote red" within its template
    first = alone(model, DATA["forget"].examples[2])[1][0]
    torch.testing.assert_close(at.values[:3], first[1:4])


def test_no_logits_where_none_are_needed(model: Any) -> None:
    steered = Needs(frozenset({"direction"}), frozenset({ANSWER}))
    made, logits = run(model, {"forget": steered, "retain": Needs(frozenset({"logits"}))})
    assert len(logits) == 2 * len(DATA["retain"].examples[1].answer)
    assert made["forget"].logits.shape == (len(made["forget"].labels), 0)


@BOTH_KINDS
@pytest.mark.parametrize("narrow", [True, False])
def test_the_reference_is_the_model_before_it_changed(tmp_path: Path, narrow: bool) -> None:
    needs = {"forget": EVERYTHING, "retain": Needs(frozenset({"reference_nll"}))}
    model = tiny_llama(14)
    assembly = Assembly(DATA, needs)
    forward = Forward(model, narrow, assembly.layers)
    references = References(tmp_path / "reference", assembly, [STEP], chunk=1)
    references.compute(forward, CPU)
    head = frozen_head(forward, needs)
    with torch.no_grad():
        before, _ = run(model, needs, narrow=narrow)
        centre = alone(model, DATA["forget"].centres[2][1])[1]
        for parameter in model.parameters():
            parameter.mul_(1.5)
    batch = assembly.batch(STEP, references.read(STEP))
    logits, hidden = forward(batch.padded, batch.places.nonzero(as_tuple=True))
    made = assembly.cut(batch, logits, hidden, head)
    inputs, close = made["forget"], torch.testing.assert_close
    close(inputs.reference_nll, sequence_nll(before["forget"]))
    close(inputs.reference_logits, before["forget"].logits)
    close(inputs.alternate.reference_nll, sequence_nll(before["forget"].alternate))
    for site in (ANSWER, QUESTION):
        close(inputs.activations[site].reference, before["forget"].activations[site].values)
        assert not torch.allclose(
            inputs.activations[site].values, before["forget"].activations[site].values
        )
    centres = inputs.activations[QUESTION].centres
    assert [len(each) for each in centres] == [2, 2]
    close(centres[0][1], centre[0][1:4])  # tokens of "wrote blue who"
    close(made["retain"].reference_nll, sequence_nll(before["retain"]))
    assert not inputs.reference_logits.requires_grad


@BOTH_KINDS
def test_reference_files_have_the_rows_in_use_and_are_computed_once(tmp_path: Path) -> None:
    needs = {"forget": Needs(frozenset({"reference_nll"})), "retain": Needs(frozenset({"logits"}))}
    references = References(tmp_path, Assembly(DATA, needs), [STEP], chunk=1)
    assert [rows for _, rows in references.files.values()] == [[0], [2]]
    forward = Forward(tiny_llama(14), narrow=True)
    references.compute(forward, CPU)
    first, second = references.files
    first.write_bytes(b"as it was")
    second.unlink()
    references.compute(forward, CPU)
    assert first.read_bytes() == b"as it was"
    assert second.exists()
