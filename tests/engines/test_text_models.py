"""Text classifiers and embedding models: their results, and refused input."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertModel,
    MambaConfig,
    MambaForCausalLM,
)

from leakbound.engines.classify import SequenceClassifier, open_classifier
from leakbound.engines.embedding import SentenceEmbedder, TransformersEmbedder
from leakbound.engines.models import OpenModels
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, ModelError
from leakbound.study import Rewritings
from shared import keep
from tiny import (
    causal_sequence_classifier,
    edit,
    sequence_classifier,
    tiny_bert_config,
    tiny_loaded,
    tiny_model_folder,
    tiny_tokenizer,
    yes_no_model,
)

TEXTS = ("red", "who wrote red blue green sky", "Ann Bob", "sea", "blue blue green who Ann")
PAIRS = [(TEXTS[i], TEXTS[-1 - i] if i % 2 else "sky") for i in range(5)]
SINGLE = [(text, None) for text in TEXTS]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that no test changes."""
    return keep(sequence_classifier(tmp_path_factory.mktemp("classifier") / "c"))


def alone(folder: Path, text: str, second: str | None) -> Any:
    """Run plain transformers on one text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(**tokenizer(text, second, return_tensors="pt")).logits[0]
    return torch.softmax(logits.double(), dim=-1).numpy()


@pytest.mark.parametrize("texts", [PAIRS, SINGLE], ids=["pairs", "single"])
@pytest.mark.parametrize("make", [sequence_classifier, causal_sequence_classifier])
def test_probabilities_equal_those_of_single_texts(
    make: Callable[[Path], Path], texts: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    folder = make(tmp_path / "c")
    classifier = SequenceClassifier.open(str(folder))
    object.__setattr__(classifier, "batch_size", 2)
    got = classifier.classify(texts)
    assert got.dtype == np.float64
    assert got.sum(axis=1) == pytest.approx(np.ones(len(texts)))
    expected = np.stack([alone(folder, *text) for text in texts])
    assert got == pytest.approx(expected, abs=1e-6)
    assert len({tuple(row) for row in expected.round(5)}) == len(texts)


def test_labels_are_in_the_order_of_the_columns(tmp_path: Path) -> None:
    labels = [f"l{i}" for i in range(11)]  # as text, 10 comes before 2
    folder = sequence_classifier(tmp_path / "c", labels)
    classifier = open_classifier(str(folder))
    assert classifier.labels == tuple(labels)
    assert classifier.classify([]).shape == (0, 11)
    assert classifier.name == str(folder)


def test_fingerprints_identify_unloaded_weights(classifier: Path, tmp_path: Path) -> None:
    same = sequence_classifier(tmp_path / "same")
    other = sequence_classifier(tmp_path / "other", seed=1)
    a, b, c = (SequenceClassifier.open(str(f)) for f in (classifier, same, other))
    assert a.fingerprint == b.fingerprint
    assert a.fingerprint["weights"] != c.fingerprint["weights"]
    assert a.fingerprint["dtype"] == "float32"
    assert "_model" not in vars(a)
    a.classify(SINGLE)
    assert "_model" in vars(a)


def test_a_text_that_is_too_long_has_no_probabilities(classifier: Path, tmp_path: Path) -> None:
    """The model or its tokenizer sets the limit; the tokenizer may allow less."""
    fits, long = "red " * 11, "red " * 12
    got = open_classifier(str(classifier)).classify([("red", "red"), (fits, long), (fits, fits)])
    assert np.isnan(got[1]).all()
    assert got[[0, 2]].sum(axis=1) == pytest.approx(1)
    folder = shutil.copytree(classifier, tmp_path / "c")
    edit(folder / "tokenizer_config.json", model_max_length=4)
    got = open_classifier(str(folder)).classify([("red blue", "red blue"), ("red", None)])
    assert np.isnan(got).all(axis=1).tolist() == [True, False]


def with_code(folder: Path) -> Path:
    edit(folder / "config.json", model_type="mine", auto_map={"AutoConfig": "mine.Config"})
    (folder / "mine.py").write_text("raise SystemExit('this code ran')")
    return folder


def test_other_models_are_refused_before_their_weights_are_read(tmp_path: Path) -> None:
    several = {"problem_type": "multi_label_classification"}
    (tmp_path / "x.gguf").touch()
    for name, shown in {
        f"{tiny_model_folder(tmp_path / 'causal')}": r"LlamaForCausalLM.*form=yes-no",
        f"{sequence_classifier(tmp_path / 'm', **several)}": "mutually exclusive labels",
        f"{sequence_classifier(tmp_path / 's', ('reward',))}": "two or more such labels",
        f"{tmp_path}/x.gguf": "safetensors",
        f"yes-no:{yes_no_model(tmp_path / 'y', words=('yes',))}": "the word 'no'",
        f"{with_code(sequence_classifier(tmp_path / 'c'))}": "cannot be loaded",
    }.items():
        with pytest.raises(ModelError, match=shown):
            open_classifier(name)


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
    got = classifier.classify(SINGLE)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    for (text, _), row in zip(SINGLE, got, strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            p = torch.softmax(model(ids).logits[0, -1].double(), dim=-1)
        yes, no = (sum(p[tokenizer.vocab[w]] for w in words) for words in (["yes", "Yes"], ["NO"]))
        assert row == pytest.approx([float(no / (yes + no)), float(yes / (yes + no))], abs=1e-6)
    assert len(set(got[:, 1].round(5))) == len(SINGLE)


def test_a_yes_no_prompt_is_one_text_that_fits(tmp_path: Path) -> None:
    classifier = open_classifier(f"yes-no:{yes_no_model(tmp_path / 'm')}")
    with pytest.raises(InputError, match="the complete prompt, got two"):
        classifier.classify([("red", None), ("red", "blue")])
    got = classifier.classify([("red " * 129, None), ("red " * 128, None)])
    assert np.isnan(got).all(axis=1).tolist() == [True, False]


PLACED = ["who wrote red", "sea", "who wrote blue sky", "Ann"]
PLAIN = Prompting(template="Question: {question} Answer: ")


def test_the_mean_is_over_the_questions_own_tokens() -> None:
    model = tiny_loaded()
    got = TransformersEmbedder(model, PLAIN, batch_size=3).embed(PLACED)
    assert got.shape == (4, 16)
    assert got.dtype == np.float32
    for text, vector in zip(PLACED, got, strict=True):
        ids = torch.tensor([PLAIN.encode(model.tokenizer, text)])
        with torch.no_grad():
            last = model.model(ids, output_hidden_states=True).hidden_states[-1][0]
        expected = last[1:-1].mean(0)  # without "Question:" and "Answer:"
        np.testing.assert_allclose(vector, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_texts_are_apart_in_a_batch_of_another_family() -> None:
    config = MambaConfig(vocab_size=len(tiny_tokenizer()), hidden_size=16, num_hidden_layers=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = tiny_loaded(MambaForCausalLM(config).eval(), None)
    together = TransformersEmbedder(model, PLAIN).embed(PLACED)
    alone = TransformersEmbedder(model, PLAIN, batch_size=1).embed(PLACED)
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)


def test_a_text_longer_than_the_context_is_refused() -> None:
    fits = TransformersEmbedder(tiny_loaded(context=4), PLAIN)
    assert len(fits.embed(["who wrote red"])) == 1  # with "Question:"
    with pytest.raises(
        InputError, match=r"at most 4 including the 1 tokens .* got 4 .*'who wrote red sky'"
    ):
        fits.embed(["who wrote red sky"])


def test_a_sentence_model_is_loaded_safely(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MagicMock()
    monkeypatch.setitem(sys.modules, "sentence_transformers", MagicMock(SentenceTransformer=made))
    embedder = OpenModels().embed("mini")
    assert embedder.name == "sentence-transformers:mini"
    safe = {"trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
    made.assert_called_once_with("mini", device=None, **safe)
    made().encode.return_value = np.array([[2.0, 1.0], [1.0, 1.0]])
    assert embedder.embed(("ab", "c")).tolist() == [[2.0, 1.0], [1.0, 1.0]]
    made.side_effect = OSError("no such model\nand more")
    with pytest.raises(ModelError, match=r"'none' cannot be loaded: no such model\. Use"):
        SentenceEmbedder.open("none")


SENTENCES = ["who wrote red", "sea", "who wrote blue sky Ann Bob green sea red sky", "Ann"]
# Deprecation warnings inside the library.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer with mean pooling, norm 1 and its own prompt."""
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    folder = tmp_path_factory.mktemp("sentences")
    tokenizer = tiny_tokenizer(cls_token="<unk>", sep_token="</s>", mask_token="<pad>")
    config = tiny_bert_config(len(tokenizer))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    parts = [Transformer(str(folder / "bert")), Pooling(16, pooling_mode="mean"), Normalize()]
    parts[0].max_seq_length = 32
    prompts = {"query": "who ", "passage": "sea "}
    model = library.SentenceTransformer(modules=parts, prompts=prompts, device="cpu")
    model.save(str(folder / "whole"), create_model_card=False)
    return folder / "whole"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "mine"))


def weights(folder: Path) -> None:
    tensors = {name: x + 0.1 for name, x in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def pooling(folder: Path) -> None:
    edit(folder / "1_Pooling" / "config.json", pooling_mode="max")


@pytest.mark.parametrize("change", [weights, pooling])
def test_a_fingerprint_covers_the_vectors(change: Callable[[Path], object], folder: Path) -> None:
    """A model is opened again only after a change of its files, also in a subfolder."""
    models = OpenModels(device="cpu")
    before = models.embed(str(folder))
    assert models.embed(str(folder)) is before
    seen, vectors = before.fingerprint, before.embed(SENTENCES)
    change(folder)
    after = models.embed(str(folder))
    assert np.abs(after.embed(SENTENCES) - vectors).max() > 1e-3  # the file changes the vectors
    assert after.fingerprint != seen


def test_copies_of_a_model_have_one_fingerprint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = folder.parent / "models--me--mini"
    shutil.copytree(folder, cached / "snapshots" / "1")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("1")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(folder.parent))
    one, other = SentenceEmbedder.open(str(folder), "cpu"), SentenceEmbedder("me/mini", None)
    assert one.fingerprint == other.fingerprint
    assert json.loads(json.dumps(one.fingerprint)) == one.fingerprint


def test_a_run_identifies_its_embedder_by_the_files(folder: Path) -> None:
    wanted = Rewritings("rules", embedder=str(folder), similarity=0.5)
    before = wanted.fingerprint
    assert wanted.fingerprint == before
    pooling(folder)
    assert wanted.fingerprint != before
