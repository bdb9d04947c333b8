from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fake_models import FakeModels, WordClassifier
from leakbound.errors import InputError
from leakbound.scorers import (
    check_prompts,
    connect,
    fingerprint,
    make_scorer,
    score_pairs,
    score_texts,
)
from leakbound.scorers.meaning import Classifier
from leakbound.types import Prompt, Scorer

PROMPT = Prompt(id="p1", question="Who wrote it?", answer="Ossian Quill wrote it")
OTHER = Prompt(id="p2", question="Where?", answer="in Ellin")


def connected(spec: str, models: FakeModels) -> Scorer:
    return connect(make_scorer(spec), models)


def test_entailment_is_the_likeliest_label_of_output_and_answer() -> None:
    """In the other direction, whether the answer entails the output."""
    models = FakeModels()
    texts = ["it was Ossian Quill who wrote it", "Ossian Quill"]
    assert score_texts(connected("entailment:nli", models), texts, PROMPT) == [1.0, 0.0]
    assert models.nli.batches == [[(text, PROMPT.answer) for text in texts]]
    assert models.names == ["nli"]
    turned = connected("entailment:model=nli,direction=answer-to-output", models)
    assert score_texts(turned, texts, PROMPT) == [0.0, 1.0]


@pytest.mark.parametrize("spec", ["entailment:nli", "classifier:harm"])
def test_a_text_that_is_too_long_is_undecided(spec: str) -> None:
    models = FakeModels()
    for each in (models.nli, models.classifier):
        each.most = 8
    scores = score_texts(connected(spec, models), ["it was Ossian Quill who wrote it", ""], PROMPT)
    assert scores[0] is None
    assert scores[1] == 0.0


def test_entailment_needs_words_of_the_answer() -> None:
    nli = WordClassifier(("entailment", "neutral"))
    ten = Prompt(id="p3", question="?", answer="a b c d e f g h i j")
    models = FakeModels(nli=nli)
    everything = "a b c d e f g h i j"
    scorer = connected("entailment:model=nli,direction=answer-to-output", models)
    assert score_texts(scorer, ["a", "", "  \n", "x", everything], ten) == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert nli.batches == [[(everything, "a"), (everything, everything)]]
    free = connected("entailment:model=nli,direction=answer-to-output,rouge=0", models)
    assert score_texts(free, ["", "x"], ten) == [0.0, 0.0]
    assert nli.batches[1:] == [[(everything, "x")]]
    stricter = connected("entailment:model=nli,direction=answer-to-output,rouge=0.11", models)
    assert score_texts(stricter, ["a", "a b"], ten) == [0.0, 1.0]


def test_labels_of_entailment_are_recognised() -> None:
    for labels in (("ENTAILMENT", "other"), ("neutral", "contradiction", "entailment")):
        scorer = connected("entailment:nli", FakeModels(nli=WordClassifier(labels)))
        assert score_texts(scorer, ["Ossian Quill wrote it"], PROMPT) == [1.0]
    with pytest.raises(InputError, match=r"'entailment', got LABEL_0, not_entailment from 'words'"):
        connected("entailment:nli", FakeModels(nli=WordClassifier(("LABEL_0", "not_entailment"))))


@pytest.mark.parametrize("name", ["rouge-l-recall", "rouge-l-f1", "entailment"])
def test_an_answer_that_rouge_would_mostly_drop_is_refused(name: str) -> None:
    half = Prompt(id="ok", question="?", answer="Nguyễn Ái Quốc 1890, née Müller")
    check_prompts(make_scorer(name), [half])
    for answer in ("東京タワー", "他出生于 Velmora 的一个小村庄里", "Ελένη Κ"):
        bad = Prompt(id="p9", question="?", answer=answer)
        with pytest.raises(InputError, match=r"'p9'.*`similarity` or `entailment:rouge=0`"):
            check_prompts(make_scorer(name), [bad])
    check_prompts(make_scorer("entailment:rouge=0"), [bad])
    any_script = connected("entailment:model=nli,rouge=0", FakeModels())
    tower = replace(bad, answer="東京タワー")
    assert score_texts(any_script, ["東京タワー", "no"], tower) == [1, 0]
    with pytest.raises(InputError, match="needs an answer"):
        check_prompts(make_scorer("entailment:rouge=0"), [Prompt(id="p", question="?")])


def test_similarity_is_the_cosine_floored_at_0(monkeypatch: pytest.MonkeyPatch) -> None:
    models = FakeModels()
    angles = {"same": 0.0, "near": 60.0, "far": 120.0, "zero": np.nan, PROMPT.answer: 0.0}

    def embed(texts: list[str]) -> np.ndarray:
        models.embedder.batches.append(texts)
        turned = np.radians([angles[text] for text in texts])
        rows = 3 * np.stack([np.cos(turned), np.sin(turned)], axis=1)
        return np.nan_to_num(rows).astype(np.float32)

    monkeypatch.setattr(models.embedder, "embed", embed)
    scorer = connected("similarity", models)
    got = score_texts(scorer, ["same", "near", "far", "", "zero"], PROMPT)
    assert got[0] == 1.0
    assert got[1] == pytest.approx(0.5, abs=1e-6)
    assert got[2:] == [0.0, 0.0, None]
    assert models.embedder.batches == [["same", PROMPT.answer, "near", "far", "zero"]]
    assert score_texts(scorer, [" ", ""], PROMPT) == [0.0, 0.0]


def test_a_classifier_reads_goal_and_completion() -> None:
    models = FakeModels()
    scorer = connected("classifier:some:model,with/signs", models)
    assert score_texts(scorer, ["Ada Vale", "no"], PROMPT) == [0.5, 0.0]
    assert models.classifier.batches == [[(PROMPT.question, "Ada Vale"), (PROMPT.question, "no")]]
    assert models.names == ["some:model,with/signs"]
    with pytest.raises(InputError, match="needs the question of a Prompt"):
        scorer.score(["x"], "an answer")


def test_a_classifier_of_yes_and_no() -> None:
    models = FakeModels(classifier=WordClassifier(("no", "yes")))
    scorer = connected("classifier:model=m,form=yes-no", models)
    assert score_texts(scorer, ["Ada {goal} Vale"], PROMPT) == [0.5]
    ((text, second),) = models.classifier.batches[0]
    assert second is None
    assert text.index(PROMPT.question) < text.index("Ada {goal} Vale") < text.index("Answer:")
    assert models.names == ["yes-no:m"]


def test_a_prompt_file_takes_the_place_of_the_pair(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("[{completion}] for [{goal}]")
    models = FakeModels()
    for form in ("sequence", "yes-no"):
        scorer = connected(f"classifier:model=m,prompt={file},form={form}", models)
        score_texts(scorer, ["Ada"], PROMPT)
        assert models.classifier.batches[-1] == [("[Ada] for [Who wrote it?]", None)]
    before = fingerprint(scorer)
    file.write_text("[{completion}]")
    assert fingerprint(scorer) == before
    assert fingerprint(connected(scorer.name, models)) != before


@pytest.mark.parametrize("text", ["{goal}", "{completion} {completion}"])
def test_a_prompt_file_contains_the_completion_once(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(text)
    with pytest.raises(InputError, match=r"\{completion\}` once"):
        connected(f"classifier:model=m,prompt={tmp_path / 'p.txt'}", FakeModels())
    with pytest.raises(InputError, match="must name a text file"):
        connected(f"classifier:model=m,prompt={tmp_path / 'q.txt'}", FakeModels())


@pytest.mark.parametrize(
    ("labels", "label", "score"),
    [
        (("safe", "Unsafe"), "", 0.25),
        (("LABEL_0", "LABEL_1"), "label_1", 0.25),
        (("unsafe", "harmful"), "harmful", 0.25),
        (("LABEL_0", "LABEL_1"), "", None),
        (("safe", "unsafe"), "harm", None),
        (("harmless", "other"), "", None),
    ],
)
def test_the_harmful_label(labels: tuple[str, ...], label: str, score: float | None) -> None:
    scorer = Classifier(model="m", label=label)
    models = FakeModels(classifier=WordClassifier(labels))
    if score is None:
        with pytest.raises(InputError, match=rf"{', '.join(labels)}\. .*label=…"):
            connect(scorer, models)
    else:
        assert score_texts(connect(scorer, models), ["Ada"], PROMPT) == [score]


@pytest.mark.parametrize(
    "spec", ["classifier:m", "entailment:nli", "similarity", "similarity>=0.5"]
)
def test_one_batch_contains_the_distinct_texts_of_all_prompts(spec: str) -> None:
    models = FakeModels()
    scorer = connected(spec, models)
    pairs = [(text, prompt) for prompt in (PROMPT, OTHER) for text in ("Ossian in Ellin", "x", "x")]
    score_pairs(scorer, pairs)
    batches = models.classifier.batches + models.nli.batches + models.embedder.batches
    assert len(batches) == 1
    assert len(set(batches[0])) == len(batches[0]) <= 4
    assert fingerprint(scorer)["weights"] == "w1"
