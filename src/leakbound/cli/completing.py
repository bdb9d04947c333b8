"""The names that a shell completes: those of every family, without loading what they name.

A key press waits for this, and the tables of some families load torch.
"""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

from leakbound.registry import plug_ins

_BUILT_IN = {
    "benchmark": """
        continuation csv fictitious harry-potter jbb jsonl muse parquet tofu tofu-mini wmdp
    """,
    "profile": """
        leak-k openunlearning scholten scholten-notebook tofu-legacy
    """,
    "scorer": """
        choice classifier contains edit entailment exact hamming judge keyword logged refusal
        rouge-l-f1 rouge-l-recall similarity
    """,
    "objective": """
        cel dpo entropy finetune ga gd idk kl kl-retain leakmin npo rmu simnpo
    """,
    "engine": """
        openai transformers vllm
    """,
    "input": """
        benchmark file model rules
    """,
    "metric": """
        choice_accuracy choice_probability exact_memorisation extraction_strength
        forget_confidence forget_distinct_share forget_entropy forget_fluency
        forget_paraphrased_probability forget_paraphrased_rouge_l_recall
        forget_perturbed_probability forget_perturbed_rouge_l_recall forget_probability
        forget_quality forget_rouge_1_recall forget_rouge_l_f1 forget_rouge_l_recall
        forget_self_bleu forget_truth_ratio forget_truth_ratio_prob_mean
        membership_gradient_norm membership_loss membership_min_k membership_min_k_plus_plus
        membership_reference membership_zlib model_utility privleak r_avg
        real_authors_confidence real_authors_distinct_share real_authors_entropy
        real_authors_normalised_probability real_authors_perturbed_probability
        real_authors_perturbed_rouge_l_recall real_authors_probability
        real_authors_rouge_1_recall real_authors_rouge_l_f1 real_authors_rouge_l_recall
        real_authors_self_bleu real_authors_truth_ratio real_authors_truth_ratio_prob_mean
        rel_diff retain_confidence retain_distinct_share retain_entropy
        retain_paraphrased_probability retain_paraphrased_rouge_l_recall
        retain_perturbed_probability retain_perturbed_rouge_l_recall retain_probability
        retain_rouge_1_recall retain_rouge_l_f1 retain_rouge_l_recall retain_self_bleu
        retain_truth_ratio retain_truth_ratio_prob_mean world_facts_confidence
        world_facts_distinct_share world_facts_entropy world_facts_normalised_probability
        world_facts_perturbed_probability world_facts_perturbed_rouge_l_recall
        world_facts_probability world_facts_rouge_1_recall world_facts_rouge_l_f1
        world_facts_rouge_l_recall world_facts_self_bleu world_facts_truth_ratio
        world_facts_truth_ratio_prob_mean
    """,
}
_ARGUMENTS = {
    "tofu": """
        forget01 forget05 forget10 full holdout01 holdout05 holdout10 real_authors retain90
        retain95 retain99 world_facts
    """,
}
"""What some benchmarks take behind a colon."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(family: str) -> tuple[str, ...]:
    """The names of a family's members, those of other packages too."""
    return tuple(dict.fromkeys([*_BUILT_IN[family].split(), *sorted(plug_ins(family))]))


def completes(family: str, *more: str, between: str = "", files: bool = False) -> Complete:
    """Completion by a family's names and `more`.

    between: what joins several of them in one value.
    files: whether a file may be named too.
    """

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, mark, last = incomplete.rpartition(between) if between else ("", "", incomplete)
        known = [*names_of(family), *more]
        if family == "benchmark":
            known += [f"{name}:{word}" for name in _ARGUMENTS for word in _ARGUMENTS[name].split()]
        items = [CompletionItem(f"{before}{mark}{name}") for name in known if name.startswith(last)]
        return [*items, *([CompletionItem(incomplete, type="file")] if files else [])]

    return complete
