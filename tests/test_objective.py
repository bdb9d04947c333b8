"""Objectives from names and files, and the sums of losses that they are."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses import (
    LossInputs,
    Needs,
    Site,
    altpo,
    cel,
    cel_retain,
    ceu,
    dpo,
    entropy,
    ga,
    idk,
    kl,
    margin,
    nll,
    npo,
    rmu,
    rmu_retain,
    satimp,
    simnpo,
    undial,
    wga,
)
from leakbound.objective import (
    OBJECTIVES,
    PRESETS,
    Dual,
    Objective,
    Term,
    load_objective,
    parse_objective,
)
from loss_cases import LAYER, build, leaves, references, rows

FORGET, RETAIN = build(leaves(0)), build(leaves(5), references(6))
SPLITS = {"forget": FORGET, "retain": RETAIN, "train": RETAIN}
L = LAYER


def mean(values: Tensor) -> Tensor:
    return values.mean()


def by_tokens(*batches: LossInputs) -> Tensor:
    """One mean over all tokens, by torch's own cross-entropy."""
    logits = torch.cat([each.logits for each in batches])
    return torch.nn.functional.cross_entropy(logits, torch.cat([each.labels for each in batches]))


def weighed(values: Tensor, lengths: Tensor) -> Tensor:
    """The mean over tokens of rows of these lengths."""
    return (values * lengths).sum() / lengths.sum()


def paired(values: Tensor) -> Tensor:
    """Divide every row's sum by every row's length, as broadcasting column and row does."""
    sums = values * FORGET.lengths
    return (sums[None, :] / FORGET.lengths[:, None]).mean()


SUMS = [
    ("finetune", mean(nll(RETAIN))),
    ("ga", mean(ga(FORGET))),
    ("gd", mean(ga(FORGET)) + mean(nll(RETAIN))),
    ("gd:forget=0.5,retain=2", 0.5 * mean(ga(FORGET)) + 2 * mean(nll(RETAIN))),
    ("kl", mean(ga(FORGET)) + mean(kl(RETAIN))),
    ("kl:over=all", mean(ga(FORGET)) + mean(kl(RETAIN, over="all"))),
    ("kl-retain:over=all,weight=2", 2 * mean(kl(RETAIN, over="all"))),
    ("gd:reduce=tokens", by_tokens(RETAIN) - by_tokens(FORGET)),
    ("npo:reduce=tokens", mean(npo(FORGET, beta=0.1)) + by_tokens(RETAIN)),
    ("idk:joined", by_tokens(FORGET.alternate, RETAIN)),
    ("kl:forget=2,retain=3", 2 * mean(ga(FORGET)) + 3 * mean(kl(RETAIN))),
    ("idk", mean(idk(FORGET)) + mean(nll(RETAIN))),
    ("idk:forget=3,retain=0", 3 * mean(idk(FORGET))),
    ("dpo", mean(dpo(FORGET, beta=0.1)) + mean(nll(RETAIN))),
    ("dpo:beta=2,textbook=true,retain=0", mean(dpo(FORGET, beta=2.0, textbook=True))),
    ("npo", mean(npo(FORGET, beta=0.1)) + mean(nll(RETAIN))),
    ("npo:beta=0.05,retain=0", mean(npo(FORGET, beta=0.05))),
    (
        "npo:retain=0 + kl-retain:weight=2",
        mean(npo(FORGET, beta=0.1)) + 2 * mean(kl(RETAIN)),
    ),
    ("simnpo", 0.125 * mean(simnpo(FORGET, beta=4.5)) + mean(nll(RETAIN))),
    (
        "simnpo:beta=2,delta=1,forget=1,retain=0.5",
        mean(simnpo(FORGET, beta=2.0, delta=1.0)) + 0.5 * mean(nll(RETAIN)),
    ),
    (
        f"rmu:layer={L}",
        mean(rmu(FORGET, layer=L, c=2.0)) + mean(rmu_retain(RETAIN, layer=L)),
    ),
    (
        f"cel:layer={L}",
        mean(cel(FORGET, layer=L, tau=0.05, alpha=0.5, beta=1.0, s=1.0))
        + mean(cel_retain(RETAIN, layer=L)),
    ),
    (
        f"cel:phi-1.5,layer={L},tau=0.8,align=truncate,distance=sum",
        mean(
            cel(
                FORGET, layer=L, tau=0.8, alpha=1.0, beta=0.01,
                align="truncate", distance="sum",
            )
        )
        + 2 * mean(cel_retain(RETAIN, layer=L, distance="sum")),
    ),
    (
        "npo+entropy",
        mean(npo(FORGET, beta=0.1))
        + mean(nll(RETAIN))
        + mean(entropy(FORGET))
        - 0.25 * mean(entropy(RETAIN)),
    ),
    (
        "ga + entropy:forget=2,retain=-0.1,over=all",
        mean(ga(FORGET))
        + 2 * mean(entropy(FORGET, over="all"))
        - 0.1 * mean(entropy(RETAIN, over="all")),
    ),
    ("altpo:beta=0.3,retain=2", mean(altpo(FORGET, beta=0.3)) + 2 * mean(nll(RETAIN))),
    ("ceu", mean(ceu(FORGET, over="rest"))),
    ("ceu:over=answer,retain=2", mean(ceu(FORGET)) + 2 * mean(nll(RETAIN))),
    ("ceu:openunlearning", weighed(ceu(FORGET, over="rest"), FORGET.lengths - 1)),
    ("pdu", mean(margin(FORGET)) + 100 * (mean(nll(RETAIN)) - 0.3)),
    ("pdu:forget=2,retain=0,at_most=1", 2 * mean(margin(FORGET))),
    (
        "pdu:openunlearning,at_most=0.2",
        weighed(margin(FORGET, over="read"), FORGET.lengths) + by_tokens(RETAIN) - 0.2,
    ),
    (
        f"rmu:openunlearning,layer={L}",
        paired(rmu(FORGET, layer=L, c=2.0)) + paired(rmu_retain(RETAIN, layer=L)),
    ),
    ("satimp", mean(satimp(FORGET, beta1=5.0, beta2=1.0)) + 0.1 * mean(nll(RETAIN))),
    ("satimp:beta1=1,beta2=2,forget=3,retain=0", 3 * mean(satimp(FORGET, beta1=1, beta2=2))),
    ("undial", mean(undial(FORGET, beta=10.0))),
    (
        "undial:beta=3,retain=1,over=all",
        mean(undial(FORGET, beta=3, over="all")) + mean(nll(RETAIN)),
    ),
    (
        "undial:openunlearning",
        weighed(undial(FORGET, beta=10.0, over="all"), FORGET.whole.lengths - 1),
    ),
    ("wga:beta=2", mean(wga(FORGET, beta=2.0)) + mean(nll(RETAIN))),
    ("wga:openunlearning", weighed(wga(FORGET, beta=1.0), FORGET.lengths) + by_tokens(RETAIN)),
    ("ga+entropy:leak-at-k", mean(ga(FORGET)) + mean(entropy(FORGET))),
]  # fmt: skip


def test_every_recipe_has_a_row() -> None:
    recipes = {one.partition(":")[0].strip() for text, _ in SUMS for one in text.split("+")}
    assert recipes == set(OBJECTIVES)


@pytest.mark.parametrize(("text", "expected"), SUMS)
def test_recipes_are_sums_of_losses(text: str, expected: Tensor) -> None:
    objective = parse_objective(text)
    assert objective.name == text
    torch.testing.assert_close(objective(SPLITS), expected)


@pytest.mark.parametrize(
    "text", [f"{recipe}:{preset}" for recipe in PRESETS for preset in PRESETS[recipe]]
)
def test_every_preset_is_a_recipe(text: str) -> None:
    recipe, _, preset = text.partition(":")
    written = ",".join(f"{key}={value}" for key, value in PRESETS[recipe][preset].items())
    shown = parse_objective(f"{recipe}:{written}").to_dict()
    assert parse_objective(text).to_dict() == shown


def test_presets_of_the_papers() -> None:
    phi, retain = parse_objective("cel:phi-1.5").terms
    assert phi.settings["layer"] == retain.settings["layer"] == 5
    assert (phi.settings["tau"], phi.settings["alpha"], phi.settings["beta"]) == (1.0, 1.0, 0.01)
    assert retain.weight == 2
    published = parse_objective("cel:llama-2-7b").to_dict()
    assert parse_objective("cel").at_depth(32).to_dict() == published
    assert parse_objective("rmu:7b").at_depth(32).terms[0].settings == {"layer": 7, "c": 6.5}


@pytest.mark.parametrize(
    ("layer", "depth", "block"),
    [
        ("0.25", 32, 7), ("0.25", 24, 5), ("0.25", 16, 3), ("0.25", 6, 0), ("0.25", 1, 0),
        ("0.5", 5, 1), ("0.29", 100, 28), ("0.99", 4, 2), ("6", 4, 6),
    ],
)  # fmt: skip
def test_a_fraction_of_the_depth_is_a_block(layer: str, depth: int, block: int) -> None:
    settled = parse_objective(f"rmu:layer={layer}+npo").at_depth(depth)
    assert [term.settings.get("layer") for term in settled.terms] == [block, block, None, None]
    assert settled.needs["forget"].sites == {Site(block, "answer")}


def test_presets_have_their_authors_training() -> None:
    shared = {"epochs": 10, "learning_rate": 1e-5, "batch_size": 8, "accumulation": 4}
    shared |= {"schedule": "linear", "warmup_ratio": 0.1, "weight_decay": 0.01, "max_grad_norm": 1}
    shared |= {"whole_steps": True}
    assert parse_objective("npo:openunlearning,beta=0.5").training == shared
    joined = parse_objective("npo:openunlearning+altpo:openunlearning+entropy")
    assert joined.training == {**shared, "epochs": 2, "warmup_ratio": 0.5}
    assert not parse_objective("npo:scholten").training
    plain = parse_objective("npo:reduce=tokens")
    assert parse_objective("npo:openunlearning") == replace(plain, name="npo:openunlearning")


def test_needs_are_those_of_all_terms_on_a_split() -> None:
    joined = parse_objective("dpo+cel:layer=3+kl-retain+entropy:retain=0,over=all")
    site = frozenset({Site(3, "question")})
    forget = {"logits", "reference_nll", "alternate", "centres", "direction", "whole"}
    retain = {"logits", "reference", "reference_logits"}
    assert joined.needs == {
        "forget": Needs(frozenset(forget), site), "retain": Needs(frozenset(retain), site)
    }  # fmt: skip
    assert joined.splits == ("forget", "retain")
    two_layers = parse_objective("rmu:layer=1+rmu:layer=4").needs["forget"].sites
    assert two_layers == {Site(1, "answer"), Site(4, "answer")}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_batch_may_be_split(name: str) -> None:
    layer = f":layer={LAYER}" if "layer" in signature(OBJECTIVES[name]).parameters else ""
    objective = parse_objective(name + layer)
    six = {split: rows(batch, [0, 1, 2, 2, 0, 1]) for split, batch in SPLITS.items()}
    halves = [
        {split: rows(batch, list(part)) for split, batch in six.items()}
        for part in ((0, 4, 2), (3, 1, 5))
    ]
    together = objective(six)
    torch.testing.assert_close(together, (objective(halves[0]) + objective(halves[1])) / 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nop", "unknown objective 'nop'. Did you mean 'npo'.*simnpo"),
        ("gd:reduce=word", "`reduce` of ga on forget must be one of sequence, tokens, pairs, join"),
        ("npo:gamma=1", "objective 'npo' has no setting 'gamma'.*beta, retain"),
        ("npo:beta", "'npo' has no preset 'beta'. Its presets are scholten. .*NAME=VALUE"),
        ("npo:beta=nan", "`beta` of objective 'npo' must be a finite number, got 'nan'"),
        ("dpo:textbook=1", "`textbook` of objective 'dpo' must be true or false, got '1'"),
        ("rmu:layer=7.5", "`layer` of objective 'rmu' must be a whole number, .*below 1, got 7.5"),
        ("pdu:step=-1", "`step` of a bound must be a finite number, 0 or more, got -1"),
        ("gd:forget=0,retain=0", "no term with a weight"),
        ("/none.yaml", r"cannot read '.*none\.yaml'"),
        (("rmu", "forget"), "loss 'rmu' needs the setting `layer`, got none"),
        (("npo", "forget", 1.0, {"beta": True}), "`beta` of loss 'npo' must be a finite number"),
        (("cel", "forget", 1.0, {"layer": 1, "align": 2}), "`align` of loss 'cel' must be a word"),
        (("nll", "retain", math.nan), "weight of nll on retain must be finite"),
        (("npo", "forget", 1.0, {}, "tokens"), "npo is not a mean over tokens.*got 'tokens'"),
    ],
)
def test_bad_names_and_terms_are_refused(given: str | tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_objective(given) if isinstance(given, str) else Term(*given)


FILE = """\
name: mine
terms:
  - {loss: npo, split: forget, settings: {beta: 5e-2}}
  - {loss: rmu, split: forget, weight: 0.5, settings: {layer: 3}}
  - {loss: kl, split: retain, weight: 0}
  - loss: dpo
    split: forget
    settings: {textbook: true}
"""


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_a_file_is_its_terms(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"given.{suffix}"
    path.write_text(FILE)
    terms = (
        Term("npo", "forget", settings={"beta": 0.05}),
        Term("rmu", "forget", 0.5, {"layer": 3}),
        Term("dpo", "forget", settings={"textbook": True}),
    )
    assert parse_objective(str(path)) == Objective("mine", terms)
    bound = "dual: {at_most: 0.3, warmup: 2}"
    path.write_text(f"terms:\n  - {{loss: nll, split: retain, weight: 0, {bound}}}\n")
    assert load_objective(path).terms == (
        Term("nll", "retain", 0.0, dual=Dual(0.3, step=1.0, warmup=2.0)),
    )
    path.write_text("terms:\n  - {loss: nll, split: retain}\n")
    assert load_objective(path) == Objective("given", (Term("nll", "retain"),))


def test_a_written_objective_reads_back(tmp_path: Path) -> None:
    objective = parse_objective("cel:phi-1.5+npo+entropy:over=all+pdu:retain=0+rmu")
    path = tmp_path / "o.yaml"
    path.write_text(json.dumps(objective.to_dict()))
    assert load_objective(path).to_dict() == objective.to_dict()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("terms: !!python/object/apply:os.system [ls]", "is not valid YAML"),
        ("term: []", "has no field 'term', got .*Did you mean 'terms'"),
        ("terms: [{loss: npo, split: forget, beta: 1}]", r"terms\[0\] has no field 'beta', got 1"),
        ("terms: [{loss: npo, split: forget, weight: a}]", "`weight` of term 1 .* finite number"),
        ("terms: [{loss: nll, split: retain, dual: {}}]", r"dual lacks 'at_most'"),
        ("terms: [{loss: ga, split: forget, settings: {1: 2}}]", "no setting '1'.*none"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "o.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_objective(path)
