"""Mutants of `residua.losses` and `residua.objective`."""

# ruff: noqa: E501 (one mutant a line)
VALUES = "losses/test_loss_values.py"
FAMILY = "conformance/test_losses.py"
OBJECTIVE = "test_objective.py"

MUTANTS = [
    ("losses/preference.py", "sequence_nll(batch) - batch.reference_nll.detach()", "batch.reference_nll.detach() - sequence_nll(batch)", VALUES),
    ("losses/preference.py", "batch.reference_nll.detach()", "batch.reference_nll", VALUES),
    ("losses/preference.py", "-(2 / beta)", "-(1 / beta)", VALUES),
    ("losses/preference.py", "logsigmoid(beta * excess)", "logsigmoid(excess)", VALUES),
    ("losses/preference.py", "excess = sequence_nll(batch)", "excess = sequence_nll(batch) / batch.lengths", VALUES),
    ("losses/entropy.py", "batch.means(-(log_probs", "batch.means((log_probs", VALUES),
    ("losses/entropy.py", "batch.means(", "batch.sums(", VALUES),
    ("losses/likelihood.py", "return batch.means(token_nll(batch))", "return batch.sums(token_nll(batch))", VALUES),
    ("losses/likelihood.py", "return -nll(batch)", "return nll(batch)", VALUES),
    ("losses/inputs.py", "mask = labels != IGNORED", "mask = labels > 0", VALUES),
    ("losses/inputs.py", "self.logits.to(precision)", "self.logits", FAMILY),
    ("losses/inputs.py", "index_add(0, self.row, values)", "index_add(0, self.row.flip(0), values)", VALUES),
    ("losses/inputs.py", "minlength=self.rows)", "minlength=self.rows).clamp(max=2)", VALUES),
    ("objective.py", "term.weight * LOSSES", "LOSSES", OBJECTIVE),
    ("objective.py", "**term.settings).mean()", "**term.settings).sum()", OBJECTIVE),
    ("objective.py", "retain: float = -0.25", "retain: float = 0.25", OBJECTIVE),
    ("objective.py", 'Term("entropy", "retain", retain)', 'Term("entropy", "forget", retain)', OBJECTIVE),
    ("objective.py", 'settings={"beta": beta}', "settings={}", OBJECTIVE),
    ("objective.py", "if term.weight != 0", "if term.weight > 0", OBJECTIVE),
]  # fmt: skip
