"""OpenUnlearning's definitions, written plainly: an oracle for its profile.

They follow the formulas in its documentation and its code at commit d3d7cf9. Every text is its own
row, and every number comes from one forward of the whole model. Of the package only the values that
describe prompts are used.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from rouge_score.rouge_scorer import RougeScorer
from scipy.stats import hmean, ks_2samp
from sklearn.metrics import roc_auc_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from leakbound.types import Prompt

SYSTEM = "You are a helpful assistant."
DATE = "10 Apr 2025"
PLAIN = "Question: {question}\nAnswer: "  # of Phi-1.5 and Llama 2's base models
LLAMA_2_CHAT = "[INST] {question} [/INST]"
TINY = 1e-10
FACTS = ("real_authors", "world_facts")


@dataclass(frozen=True)
class Scored:
    """A question with an answer: the model's figures of its scored tokens."""

    loss: float
    logprobs: torch.Tensor  # of the scored tokens except the last, like all below
    standard: torch.Tensor  # the same by the moments of log p over the vocabulary
    right: list[bool]
    text: str


@dataclass
class Oracle:
    """Their evaluation of one model, with `template` or with its chat template."""

    model: Any
    tokenizer: Any
    new_tokens: int
    template: str | None = None
    known: dict[tuple[str, ...], Any] = field(default_factory=dict)  # results of earlier calls

    @property
    def pad(self) -> int:
        got = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if got is None else got)

    def ids(self, turns: list[dict[str, str]], *, open_ended: bool) -> list[int]:
        got = self.tokenizer.apply_chat_template(
            turns, add_generation_prompt=open_ended, return_dict=False, date_string=DATE
        )
        return list(got)

    def instance(self, question: str, answer: str) -> tuple[list[int], list[int]]:
        """Return (ids of the prompt, ids of prompt and answer)."""
        if self.template is None:
            wanted = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
            shown = {"role": "assistant", "content": answer}
            alone = self.ids(wanted, open_ended=True)
            whole = self.ids([*wanted, shown], open_ended=False)
        else:
            prompt = self.template.format(question=question)
            alone = list(self.tokenizer(prompt)["input_ids"])
            whole = list(self.tokenizer(prompt + answer)["input_ids"])
        if whole[-1] != self.tokenizer.eos_token_id:
            whole = [*whole, self.tokenizer.eos_token_id]
        return alone, whole

    def logits(self, whole: Sequence[int]) -> torch.Tensor:
        given = torch.tensor([whole])
        return self.model(input_ids=given, attention_mask=given.ne(self.pad).long()).logits[0]

    def scored(self, question: str, answer: str) -> Scored:
        return self.kept("scored", self.score_text, question, answer)

    def answer(self, question: str) -> str:
        """Return the greedy answer after the prompt."""
        return self.kept("answer", self.generate, question)

    def gradient_norm(self, question: str, answer: str) -> float:
        return self.kept("gradient", self.differentiate, question, answer)

    def kept(self, what: str, make: Callable[..., Any], *texts: str) -> Any:
        if (what, *texts) not in self.known:
            self.known[what, *texts] = make(*texts)
        return self.known[what, *texts]

    @torch.no_grad()
    def score_text(self, question: str, answer: str) -> Scored:
        alone, whole = self.instance(question, answer)
        first, labels = len(alone), torch.tensor(whole[len(alone) :])
        laws = self.logits(whole)[first - 1 : -1].log_softmax(-1)
        each = laws.gather(1, labels[:, None])[:, 0]
        p = laws.exp()
        mu = (p * laws).sum(-1)
        sigma = ((p * laws.square()).sum(-1) - mu.square()).clamp(min=1e-6).sqrt()
        return Scored(
            loss=-float(each.sum()) / len(labels),
            logprobs=each[:-1],
            standard=((each - mu) / sigma)[:-1],
            right=(laws.argmax(-1) == labels)[:-1].tolist(),
            text=self.tokenizer.decode(labels.tolist(), skip_special_tokens=True),
        )

    def differentiate(self, question: str, answer: str) -> float:
        alone, whole = self.instance(question, answer)
        first, labels = len(alone), torch.tensor(whole[len(alone) :])
        laws = self.logits(whole)[first - 1 : -1].log_softmax(-1)
        each = laws.gather(1, labels[:, None])[:-1, 0]
        self.model.zero_grad()
        (-each.mean()).backward()
        norms = [p.grad.norm() for p in self.model.parameters() if p.grad is not None]
        self.model.zero_grad()
        return float(torch.stack(norms).mean())

    @torch.no_grad()
    def generate(self, question: str) -> str:
        alone, _ = self.instance(question, "")
        given = torch.tensor([alone])
        got = self.model.generate(
            given,
            attention_mask=given.ne(self.pad).long(),
            do_sample=False,
            max_new_tokens=self.new_tokens,
            pad_token_id=self.tokenizer.eos_token_id,
        )
        text = self.tokenizer.decode(got[0, len(alone) :], skip_special_tokens=True)
        return str(text).split(self.tokenizer.eos_token)[0].strip()

    def metrics(self, parts: dict[str, Sequence[Prompt]]) -> dict[str, float]:
        """Return their metrics of one model, by our names."""
        got: dict[str, float] = {}
        for part in ("forget", "retain", *FACTS):
            prompts = parts[part]
            right = [self.scored(p.question, str(p.answer)) for p in prompts]
            losses = [loss_of(each) for each in right]
            got[f"{part}_probability"] = mean(np.exp(-np.array(losses)))
            rouge = [score(str(p.answer), self.answer(p.question)) for p in prompts]
            got[f"{part}_rouge_1_recall"] = mean([each["rouge1"].recall for each in rouge])
            got[f"{part}_rouge_l_recall"] = mean([each["rougeL"].recall for each in rouge])
            got[f"{part}_rouge_l_f1"] = mean([each["rougeL"].fmeasure for each in rouge])
            ratio = self.truth_ratios(part, prompts)
            closer = np.minimum(ratio, 1 / (ratio + TINY))
            better = np.maximum(0, 1 - ratio)
            got[f"{part}_truth_ratio"] = mean(closer if part == "forget" else better)
            got[f"{part}_truth_ratio_prob_mean"] = mean(self.shares(part, prompts))
            got |= self.others(f"{part}_perturbed", prompts, lambda p: p.perturbed_answers)
            if part not in FACTS:
                reworded = f"{part}_paraphrased"
                got |= self.others(reworded, prompts, lambda p: [p.paraphrased_answer])
            if part in FACTS:
                wrong = [sum(np.exp(-self.wrong(p))) for p in prompts]
                p = np.exp(-np.array(losses))
                got[f"{part}_normalised_probability"] = mean(p / (p + wrong + TINY))
            if part == "forget":
                got["exact_memorisation"] = mean([mean(each.right) for each in right])
                got["extraction_strength"] = mean([strength(each.right) for each in right])
        terms = [got[f"{part}_rouge_l_recall"] for part in ("retain", *FACTS)]
        terms += [got[f"{part}_truth_ratio"] for part in ("retain", *FACTS)]
        terms += [got["retain_probability"]]
        terms += [got[f"{part}_normalised_probability"] for part in FACTS]
        got["model_utility"] = float(hmean(terms)) if all(terms) else 0.0
        return got | {name: auc(*scores) for name, scores in self.attacks(parts).items()}

    def others(
        self, name: str, prompts: Sequence[Prompt], texts: Callable[[Prompt], Sequence[Any]]
    ) -> dict[str, float]:
        """Probability and ROUGE recall of other texts than the answer, averaged by prompt."""
        losses = [[self.scored(p.question, text).loss for text in texts(p)] for p in prompts]
        recalls = [
            [score(text, self.answer(p.question))["rougeL"].recall for text in texts(p)]
            for p in prompts
        ]
        return {
            f"{name}_probability": mean([mean(np.exp(-np.array(each))) for each in losses]),
            f"{name}_rouge_l_recall": mean([mean(each) for each in recalls]),
        }

    def wrong(self, prompt: Prompt) -> np.ndarray:
        return np.array(
            [self.scored(prompt.question, each).loss for each in prompt.perturbed_answers]
        )

    def sides(self, part: str, prompts: Sequence[Prompt]) -> tuple[np.ndarray, np.ndarray]:
        """exp(-loss) of the right answers, and exp(-mean loss) of the wrong ones."""
        right = [p.answer if part in FACTS else p.paraphrased_answer for p in prompts]
        losses = [self.scored(p.question, str(a)).loss for p, a in zip(prompts, right, strict=True)]
        wrong = np.array([self.wrong(p).mean() for p in prompts])
        return np.exp(-np.array(losses)), np.exp(-wrong)

    def truth_ratios(self, part: str, prompts: Sequence[Prompt]) -> np.ndarray:
        right, wrong = self.sides(part, prompts)
        return wrong / (right + TINY)

    def shares(self, part: str, prompts: Sequence[Prompt]) -> np.ndarray:
        right, wrong = self.sides(part, prompts)
        return right / (right + wrong + TINY)

    def attacks(self, parts: dict[str, Sequence[Prompt]]) -> dict[str, tuple[list, list]]:
        """Return the scores of both sides under each attack."""
        sides = [
            [(self.scored(p.question, str(p.answer)), p) for p in parts[side]]
            for side in ("forget", "holdout")
        ]

        def of(measure: Callable[[Scored], float]) -> tuple[list, list]:
            forget, holdout = ([measure(each) for each, _ in side] for side in sides)
            return forget, holdout

        norms = [[self.gradient_norm(p.question, str(p.answer)) for _, p in s] for s in sides]
        return {
            "membership_loss": of(loss_of),
            "membership_zlib": of(lambda each: each.loss / len(zlib.compress(each.text.encode()))),
            "membership_min_k": of(lambda each: -lowest(each.logprobs.numpy())),
            "membership_min_k_plus_plus": of(lambda each: -lowest(each.standard.numpy())),
            "membership_gradient_norm": (norms[0], norms[1]),
        }

    def against(self, retrained: Oracle, parts: dict[str, Sequence[Prompt]]) -> dict[str, float]:
        """Their metrics of a model against the retrained one, by our names."""
        ratios = [each.truth_ratios("forget", parts["forget"]) for each in (self, retrained)]
        ours, theirs = self.attacks(parts), retrained.attacks(parts)
        inside = [auc(*each["membership_min_k"]) for each in (ours, theirs)]
        out = [1 - each for each in inside]
        beyond = [
            np.array(mine) - np.array(other)
            for mine, other in zip(ours["membership_loss"], theirs["membership_loss"], strict=True)
        ]
        return {
            "forget_quality": float(ks_2samp(*ratios).pvalue),
            "privleak": (out[0] - out[1]) / (out[1] + TINY) * 100,
            "rel_diff": (inside[0] - inside[1]) / (inside[1] + TINY) * 100,
            "membership_reference": auc(*beyond),
        }


@torch.no_grad()
def clean(texts: Sequence[str], folder: str, tokens: int = 32) -> list[float]:
    """Return the first class's probability of each text's beginning, in one padded batch."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer(
        list(texts), return_tensors="pt", padding=True, truncation=True, max_length=tokens
    )
    given.pop("token_type_ids", None)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    got: list[float] = model(**given).logits.softmax(-1)[:, 0].tolist()
    return got


def loss_of(each: Scored) -> float:
    return each.loss


def mean(values: Any) -> float:
    return float(np.mean(values))


def score(truth: str, text: str) -> Any:
    return RougeScorer(["rouge1", "rougeL"], use_stemmer=True).score(truth, text)


def strength(right: Sequence[bool]) -> float:
    """1 - k/n with the first k from which all is right, or the last index there is."""
    k = next((k for k in range(len(right)) if all(right[k:])), len(right) - 1)
    return 1 - k / len(right)


def lowest(values: np.ndarray) -> float:
    return float(np.sort(values)[: max(1, int(len(values) * 0.4))].mean())


def auc(forget: Any, holdout: Any) -> float:
    labels = [0] * len(forget) + [1] * len(holdout)
    return float(roc_auc_score(labels, [*forget, *holdout]))
