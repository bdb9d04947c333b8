"""Mutants of `leakbound.losses` and `leakbound.objective`."""

# ruff: noqa: E501 (one mutant a line)
VALUES = "losses/test_loss_values.py"
ACTIVATIONS = "losses/test_activation_losses.py"
FAMILY = "conformance/test_losses.py"
OBJECTIVE = "test_objective.py"
LEAKMIN = "losses/test_leakmin.py"
FILES = "test_objective.py::test_a_file_is_its_terms"
BAD_FILES = "test_objective.py::test_bad_files_are_refused"
BAD_NAMES = "test_objective.py::test_bad_names_are_refused"
BAD_TERMS = "test_objective.py::test_bad_terms_are_refused"

MUTANTS = [
    # preference
    ("losses/preference.py", "sequence_nll(batch) - given(", "-sequence_nll(batch) + given(", VALUES),
    ("losses/preference.py", '"reference_nll", loss).detach()', '"reference_nll", loss)', FAMILY),
    ("losses/preference.py", "return -(2 / beta) * logsigmoid(beta * _excess", "return -(1 / beta) * logsigmoid(beta * _excess", VALUES),
    ("losses/preference.py", "logsigmoid(beta * _excess", "logsigmoid(_excess", VALUES),
    ("losses/preference.py", 'npo(batch: LossInputs, *, beta: float = 0.1', 'npo(batch: LossInputs, *, beta: float = 0.05', VALUES),
    ("losses/preference.py", "(1 if textbook else 2 / beta)", "(2 / beta)", VALUES),
    ("losses/preference.py", '_excess(batch, "dpo") - _excess(alternate, "dpo")', '_excess(alternate, "dpo") - _excess(batch, "dpo")', VALUES),
    ("losses/preference.py", "(nll(batch) - delta)", "(sequence_nll(batch) - delta)", VALUES),
    ("losses/preference.py", "(nll(batch) - delta)", "nll(batch) - delta", VALUES),
    ("losses/preference.py", "beta: float = 4.5", "beta: float = 2.5", VALUES),
    ("losses/checks.py", "0 < value < math.inf", "0 <= value < math.inf", VALUES),
    ("losses/checks.py", "0 < value < math.inf", "0 < value", VALUES),
    ("losses/checks.py", "0 <= value < math.inf", "True", ACTIVATIONS),
    # likelihood, entropy
    ("losses/entropy.py", "batch.means(-(log_probs", "batch.means((log_probs", VALUES),
    ("losses/entropy.py", "batch.means(", "batch.sums(", VALUES),
    ("losses/entropy.py", 'entropy(given(batch.whole, "whole", "entropy-all"))', "entropy(batch)", VALUES),
    ("losses/likelihood.py", "return batch.means(token_nll(batch))", "return batch.sums(token_nll(batch))", VALUES),
    ("losses/likelihood.py", "return -nll(batch)", "return nll(batch)", VALUES),
    ("losses/likelihood.py", 'nll(given(batch.alternate, "alternate", "idk"))', "nll(batch)", VALUES),
    ("losses/likelihood.py", "(log_reference.exp() * (log", "(batch.log_probs.exp() * (log", VALUES),
    ("losses/likelihood.py", "precise(reference).detach()", "precise(reference)", FAMILY),
    # leak minimisation
    ("losses/leakage.py", "/ (draws[owner] - 1)", "/ draws[owner]", LEAKMIN),
    ("losses/leakage.py", "mean = row_sums(counts * above, owner, rows) / draws", "mean = row_sums(above, owner, rows) / draws.new_zeros(rows).index_add(0, owner, torch.ones_like(above))", LEAKMIN),
    # a baseline that leaves out the answer with all its copies
    ("losses/leakage.py", "counts * (above - mean[owner]) / (draws[owner] - 1)", "counts / draws[owner] * (above - ((mean * draws)[owner] - counts * above) / (draws[owner] - counts).clamp(min=1))", LEAKMIN),
    ("losses/leakage.py", "(above - mean[owner])", "above", LEAKMIN),
    ("losses/leakage.py", "(above - mean[owner])", "(mean[owner] - above)", LEAKMIN),
    ("losses/leakage.py", "return counts * (above", "return (above", LEAKMIN),
    ("losses/leakage.py", "above = scores - lowest[owner]", "above = scores", LEAKMIN),
    ("losses/leakage.py", "log_probs = -sequence_nll(", "log_probs = -nll(", LEAKMIN),
    ("losses/leakage.py", "(draws[owner] < 2).any()", "False", LEAKMIN),
    ("losses/leakage.py", "@torch.no_grad()\n", "", LEAKMIN),
    ("losses/leakage.py", "weights * log_probs, sampled.owner", "weights * log_probs, sampled.owner * 0", VALUES),
    ("losses/__init__.py", '"leakmin": Loss(leakmin, frozenset({"sampled"}))', '"leakmin": Loss(leakmin, frozenset())', FAMILY),
    ("objective/recipes.py", 'Term("leakmin", "forget", forget)', 'Term("leakmin", "forget")', OBJECTIVE),
    # activations
    ("losses/steering.py", "fixed.detach()", "fixed", FAMILY),
    ("losses/steering.py", "(precise(values) - ", "(values - ", FAMILY),
    ("losses/steering.py", 'squares.mean(dim=-1) if distance == "mean"', 'squares.mean(dim=-1) if distance == "sum"', VALUES),
    ("losses/steering.py", "target = c * given", "target = given", VALUES),
    ("losses/steering.py", "c: float = 2.0", "c: float = 6.5", VALUES),
    ("losses/steering.py", "torch.rand(", "torch.randn(", ACTIVATIONS),
    ("losses/steering.py", "normalize(values, dim=0)", "normalize(values, p=1, dim=0)", ACTIVATIONS),
    ("losses/steering.py", 'batch.site("rmu", Site(layer, "answer"))', 'batch.site("rmu", Site(layer, "question"))', VALUES),
    ("losses/contrastive.py", "(tau - nearness).clamp(min=0)", "(tau - nearness)", VALUES),
    ("losses/contrastive.py", "return alpha * push + beta * pull", "return push + beta * pull", VALUES),
    ("losses/contrastive.py", "return alpha * push + beta * pull", "return alpha * push + pull", VALUES),
    ("losses/contrastive.py", "s * direction", "direction", VALUES),
    ("losses/contrastive.py", "question, distance, align) for x in each]).mean()", "question, distance, align) for x in each]).amax()", VALUES),
    ("losses/contrastive.py", 'if align == "truncate":', "if False:", VALUES),
    ("losses/contrastive.py", ".clamp(max=len(centre) - 1)", ".remainder(len(centre))", VALUES),
    ("losses/contrastive.py", "fewest = 2 if beta == 0 else 1", "fewest = 1", ACTIVATIONS),
    ("losses/contrastive.py", "lacking or len(centres) != rows", "lacking", ACTIVATIONS),
    ("losses/contrastive.py", "tau: float = 0.05", "tau: float = 1.0", VALUES),
    ("losses/contrastive.py", 'batch.site("cel-retain", Site(layer, "question"))', 'batch.site("cel-retain", Site(layer, "answer"))', VALUES),
    # what they take
    ("losses/inputs.py", "labels != IGNORED", "labels > 0", VALUES),
    ("losses/inputs.py", "return precise(self.logits)", "return self.logits", FAMILY),
    ("losses/inputs.py", "@cached_property", "@property", "losses/test_inputs.py"),
    ("losses/inputs.py", "index_add(0, row, values)", "index_add(0, row.flip(0), values)", VALUES),
    ("losses/inputs.py", "minlength=self.rows)", "minlength=self.rows).clamp(max=2)", VALUES),
    ("losses/inputs.py", "reference_logits[row, column]", "reference_logits[column, row]", VALUES),
    ("losses/inputs.py", "if part is None:", "if False:", FAMILY),
    ("losses/__init__.py", '{"logits", "reference_nll", "alternate"}', '{"logits", "alternate"}', FAMILY),
    ("losses/__init__.py", '{"logits", "reference_logits"}', '{"reference_logits"}', FAMILY),
    ("losses/family.py", "self.parts | other.parts", "self.parts", OBJECTIVE),
    ("losses/family.py", "self.sites | other.sites", "self.sites", OBJECTIVE),
    ("losses/family.py", "parameter.default is parameter.empty and", "False and", BAD_TERMS),
    ("losses/family.py", "type(value) is int and value >= 0", "value >= 0", BAD_TERMS),
    ("losses/family.py", "not isinstance(value, bool)", "True", BAD_TERMS),
    ("losses/family.py", "self.function(_probe", "lambda: self.function(_probe", BAD_NAMES),
    ("registry.py", 'if family.endswith("s") else', "if False else", OBJECTIVE),
    # objectives
    ("objective/terms.py", "return self.weight * values.mean()", "return values.mean()", OBJECTIVE),
    ("objective/terms.py", "return self.weight * values.mean()", "return self.weight * values.sum()", OBJECTIVE),
    ("objective/terms.py", "if not math.isfinite(self.weight)", "if False", BAD_TERMS),
    ("objective/terms.py", "needs[term.split] |= term.needs", "needs[term.split] = term.needs", OBJECTIVE),
    ("objective/terms.py", "total = total + value", "total = value", OBJECTIVE),
    ("objective/recipes.py", "retain: float = -0.25", "retain: float = 0.25", OBJECTIVE),
    ("objective/recipes.py", 'Term(loss, "retain", retain)', 'Term(loss, "forget", retain)', OBJECTIVE),
    ("objective/recipes.py", 'Term("npo", "forget", settings={"beta": beta})', 'Term("npo", "forget")', OBJECTIVE),
    ("objective/recipes.py", "forget: float = 0.125", "forget: float = 1.0", OBJECTIVE),
    ("objective/recipes.py", '{"layer": 5, "tau": 1.0', '{"layer": 7, "tau": 1.0', OBJECTIVE),
    ("objective/recipes.py", '"beta": 0.01, "retain": 2.0', '"beta": 0.01, "retain": 1.0', OBJECTIVE),
    ("objective/recipes.py", '"retain": 1200.0', '"retain": 1.0', OBJECTIVE),
    ("objective/recipes.py", 'loss = "entropy" if scope == "answer"', 'loss = "entropy" if scope', OBJECTIVE),
    ("objective/reading.py", "Objective(text, tuple(term for term in terms if term.weight != 0))", "Objective(text, tuple(term for term in terms if term.weight > 0))", OBJECTIVE),
    ("objective/reading.py", "Objective(name, tuple(term for term in terms if term.weight != 0))", "Objective(name, tuple(terms))", FILES),
    ("objective/reading.py", "set(fields) - needed - others", "set() - needed - others", BAD_FILES),
    ("objective/reading.py", "needed - set(fields)", "needed - needed", BAD_FILES),
    ("objective/reading.py", "safe_load(", "unsafe_load(", BAD_FILES),
    ("objective/reading.py", "math.nan if isinstance(value, bool) else float(value)", "float(value)", BAD_FILES),
    ("objective/reading.py", "return int(number) if whole else number", "return number", FILES),
]  # fmt: skip
