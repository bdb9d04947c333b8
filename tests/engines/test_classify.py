from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from leakbound.engines.classify import SequenceClassifier, YesNoClassifier, open_classifier
from leakbound.errors import InputError, ModelError
from tiny import causal_sequence_classifier, sequence_classifier, tiny_model_folder, yes_no_model

TEXTS = ("red", "who wrote red blue green sky", "Ann Bob", "sea", "blue blue green who Ann")
PAIRS = [(TEXTS[i], TEXTS[-1 - i] if i % 2 else "sky") for i in range(5)]
SINGLE = [(text, None) for text in TEXTS]


def alone(folder: Path, text: str, second: str | None) -> Any:
    """What plain transformers makes of one text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(**tokenizer(text, second, return_tensors="pt")).logits[0]
    return torch.softmax(logits.double(), dim=-1).numpy()


@pytest.mark.parametrize("texts", [PAIRS, SINGLE], ids=["pairs", "single"])
@pytest.mark.parametrize("make", [sequence_classifier, causal_sequence_classifier])
def test_probabilities_are_those_of_each_text_alone(
    make: Callable[[Path], Path], texts: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    folder = make(tmp_path / "c")
    classifier = SequenceClassifier.open(str(folder))
    object.__setattr__(classifier, "batch_size", 2)
    found = classifier.classify(texts)
    assert found.dtype == np.float64
    assert found.sum(axis=1) == pytest.approx(np.ones(len(texts)))
    expected = np.stack([alone(folder, *text) for text in texts])
    assert found == pytest.approx(expected, abs=1e-6)
    assert len({tuple(row) for row in expected.round(5)}) == len(texts)


def test_labels_stand_in_the_order_of_the_columns(tmp_path: Path) -> None:
    labels = [f"l{i}" for i in range(11)]  # as text, 10 comes before 2
    folder = sequence_classifier(tmp_path / "c", labels)
    classifier = open_classifier(str(folder))
    assert classifier.labels == tuple(labels)
    assert classifier.classify([]).shape == (0, 11)
    assert classifier.name == str(folder)


def test_a_fingerprint_tells_weights_apart_and_needs_none_loaded(tmp_path: Path) -> None:
    folders = [sequence_classifier(tmp_path / name, seed=s) for name, s in (("a", 0), ("b", 0))]
    other = sequence_classifier(tmp_path / "c", seed=1)
    a, b, c = (SequenceClassifier.open(str(f)) for f in (*folders, other))
    assert a.fingerprint == b.fingerprint
    assert a.fingerprint["weights"] != c.fingerprint["weights"]
    assert a.fingerprint["dtype"] == "float32"
    assert "_model" not in vars(a)
    a.classify(SINGLE)
    assert "_model" in vars(a)


def test_a_text_that_is_too_long_has_no_probabilities(tmp_path: Path) -> None:
    classifier = open_classifier(str(sequence_classifier(tmp_path / "c")))
    fits, long = "red " * 11, "red " * 12
    found = classifier.classify([("red", "red"), (fits, long), (fits, fits)])
    assert np.isnan(found[1]).all()
    assert found[[0, 2]].sum(axis=1) == pytest.approx(1)


def test_a_tokenizer_may_allow_less_than_the_model(tmp_path: Path) -> None:
    folder = sequence_classifier(tmp_path / "c")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.model_max_length = 4
    tokenizer.save_pretrained(folder)
    found = open_classifier(str(folder)).classify([("red blue", "red blue"), ("red", None)])
    assert np.isnan(found).all(axis=1).tolist() == [True, False]


def test_what_is_no_classifier_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    causal = tiny_model_folder(tmp_path / "causal")
    with pytest.raises(ModelError, match=r"LlamaForCausalLM.*form=yes-no"):
        open_classifier(str(causal))
    several = sequence_classifier(tmp_path / "m", problem_type="multi_label_classification")
    with pytest.raises(ModelError, match="exclude each other"):
        open_classifier(str(several))
    single = sequence_classifier(tmp_path / "s", ("reward",))
    with pytest.raises(ModelError, match="two labels"):
        open_classifier(str(single))
    gguf = tmp_path / "x.gguf"
    gguf.touch()
    with pytest.raises(ModelError, match="safetensors"):
        open_classifier(str(gguf))


def test_code_of_its_own_is_never_run(tmp_path: Path) -> None:
    folder = sequence_classifier(tmp_path / "c")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text("raise SystemExit('this code ran')")
    with pytest.raises(ModelError, match="cannot be loaded"):
        open_classifier(str(folder))


def test_nan_is_refused(tmp_path: Path) -> None:
    folder = sequence_classifier(tmp_path / "c")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"][0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="NaN"):
        open_classifier(str(folder)).classify(SINGLE)


def test_yes_is_weighed_against_no(tmp_path: Path) -> None:
    folder = yes_no_model(tmp_path / "m")
    classifier = open_classifier(f"yes-no:{folder}")
    assert classifier.labels == ("no", "yes")
    assert classifier.name == f"yes-no:{folder}"
    object.__setattr__(classifier, "batch_size", 3)
    found = classifier.classify(SINGLE)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    for (text, _), row in zip(SINGLE, found, strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            p = torch.softmax(model(ids).logits[0, -1].double(), dim=-1)
        yes, no = (sum(p[tokenizer.vocab[w]] for w in words) for words in (["yes", "Yes"], ["NO"]))
        assert row == pytest.approx([float(no / (yes + no)), float(yes / (yes + no))], abs=1e-6)
    assert len(set(found[:, 1].round(5))) == len(SINGLE)


def test_yes_and_no_need_tokens_of_their_own(tmp_path: Path) -> None:
    folder = yes_no_model(tmp_path / "m", words=("yes",))
    with pytest.raises(ModelError, match="the word 'no'"):
        YesNoClassifier.open(str(folder))


def test_a_yes_no_prompt_is_one_text_that_fits(tmp_path: Path) -> None:
    classifier = open_classifier(f"yes-no:{yes_no_model(tmp_path / 'm')}")
    with pytest.raises(InputError, match="the whole prompt, got a pair"):
        classifier.classify([("red", None), ("red", "blue")])
    found = classifier.classify([("red " * 129, None), ("red " * 128, None)])
    assert np.isnan(found).all(axis=1).tolist() == [True, False]
