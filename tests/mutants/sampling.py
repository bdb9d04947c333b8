"""Mutants of `residua.sampling`."""

# ruff: noqa: E501 (one mutant a line)
CHUNKS = "sampling/test_forest.py::test_more_chunks_leave_the_old_ones_untouched"
FORWARDS = "sampling/test_forest.py::test_one_forward_per_distinct_prefix"
GREEDY = "sampling/test_forest.py::test_greedy_is_one_completion"
FINISH = "sampling/test_forest.py::test_finish_reasons_and_confidence"
BROKEN = "sampling/test_forest.py::test_broken_logits_fail_their_query_alone_and_name_the_prefix"
LAW = "sampling/test_forest.py::test_counts_follow_the_exact_law"
BUDGET = "sampling/test_forest.py::test_draws_are_the_same_at_any_row_budget_and_in_any_company"
ARMS = "evaluation/test_arms.py"
NEXT = "sampling/test_next_token.py"
PHILOX = "sampling/test_philox.py"

MUTANTS = [
    # which draws stand on which prefix, and where they end
    ("sampling/forest.py", "child * width + np.repeat(rows.chunk, rows.count)", "child * width", CHUNKS),
    ("sampling/forest.py", "ended: NDArray[np.bool_] = stop | string |", "ended: NDArray[np.bool_] = string |", LAW),
    ("sampling/forest.py", "depth == self._decoding.max_new_tokens", "depth == self._decoding.max_new_tokens + 1", LAW),
    ("sampling/forest.py", "takes_over[len(rows) - 1 - np.unique(rows.parent[::-1], return_index=True)[1]]", "takes_over[np.unique(rows.parent, return_index=True)[1]]", BUDGET),
    ("sampling/forest.py", "self._model.release(np.setdiff1d(handles, going.parent))", "pass", GREEDY),
    # what is said of a leaf
    ("sampling/forest.py", "rows.logprob[parent_row] + picks.logprob[example]", "picks.logprob[example]", LAW),
    ("sampling/forest.py", "rows.p_max_sum[parent_row] + picks.p_max[parent_row]", "picks.p_max[parent_row]", FINISH),
    ("sampling/forest.py", "rows.p_max_sum[i] / depth[i]", "rows.p_max_sum[i]", FINISH),
    ("sampling/forest.py", "() if broken_at is not None else leaves", "leaves", BROKEN),
    ("sampling/forest.py", "self.usage.forwards += len(part)", "self.usage.forwards += 1", FORWARDS),
    # randomness
    ("sampling/forest.py", "root.query_id, c) for c in chunks]", "root.query_id, 0) for c in chunks]", CHUNKS),
    ("sampling/forest.py", "range(draws.first_chunk, draws.first_chunk + len(draws.sizes))", "range(len(draws.sizes))", CHUNKS),
    ("sampling/philox.py", "[seed, purpose, query_id, chunk]", "[seed, query_id, chunk]", PHILOX),
    ("sampling/philox.py", "[seed, purpose, query_id, chunk]", "[purpose, query_id, chunk]", PHILOX),
    ("sampling/philox.py", "[seed, purpose, query_id, chunk]", "[seed, purpose, chunk]", PHILOX),
    ("sampling/philox.py", "(tokens.astype(np.uint64), depth.astype(np.uint64), *prefix)", "(tokens.astype(np.uint64), 0 * depth.astype(np.uint64), *prefix)", PHILOX),
    ("sampling/philox.py", "(tokens.astype(np.uint64), depth.astype(np.uint64), *prefix)", "(0 * tokens.astype(np.uint64), depth.astype(np.uint64), *prefix)", PHILOX),
    ("sampling/philox.py", "for _ in range(10):", "for _ in range(9):", PHILOX),
    ("sampling/philox.py", "* 67108864.0 + low.astype(np.float64)", "* 67108864.0", PHILOX),
    ("sampling/philox.py", "np.where(odd, words[2], words[0])", "np.where(odd, words[0], words[0])", PHILOX),
    # temperature, top-k, top-p
    ("sampling/next_token.py", ".div_(decoding.temperature).exp_()", ".div_(decoding.temperature**2).exp_()", NEXT),
    ("sampling/next_token.py", "limit = decoding.top_k or size", "limit = decoding.top_k and decoding.top_k + 1 or size", NEXT),
    ("sampling/next_token.py", "(decoding.top_p - _NUCLEUS_TOLERANCE)", "(decoding.top_p + _NUCLEUS_TOLERANCE)", NEXT),
    ("sampling/next_token.py", "(upto < reach[:, None]).sum(dim=-1) + 1)", "(upto < reach[:, None]).sum(dim=-1) + 2)", NEXT),
    ("sampling/next_token.py", "ids, order = ids.sort(dim=-1)", "ids, order = ids.sort(dim=-1, descending=True)", NEXT),
    ("sampling/next_token.py", "(mass > mass[:, -1:])", "(mass >= mass[:, -1:])", NEXT),
    ("sampling/next_token.py", "if limit <= width else weights.sum(dim=-1)", "if limit <= width else upto[:, -1]", NEXT),
    ("sampling/next_token.py", "target = u * upto[row, -1]", "target = u", NEXT),
    ("sampling/next_token.py", "torch.log(chosen) - torch.log(upto[row, -1])", "torch.log(chosen)", NEXT),
    ("sampling/next_token.py", "torch.log(mass[done][slot, index]) - torch.log(total[slot])", "torch.log(mass[done][slot, index])", NEXT),
    ("sampling/next_token.py", "logits[row, tokens] - top[row] - log_total[row]", "torch.log(weights[row, tokens]) - torch.log(weights.sum(dim=-1))[row]", NEXT),
    ("sampling/next_token.py", "offset = torch.minimum(offset, _last_positive(inside))", "pass", NEXT),
    ("sampling/next_token.py", "offset = torch.maximum(offset, (inside > 0).to(torch.int8).argmax(dim=-1))", "pass", NEXT),
    ("sampling/next_token.py", "logits = logits.double()", "logits = logits.float()", NEXT),
    ("sampling/next_token.py", "/ confidence[1] > decoding", "/ confidence[1] >= decoding", NEXT),
    ("sampling/next_token.py", "(confidence[0] + p_max) / confidence[1]", "p_max", NEXT),
    ("sampling/next_token.py", "broken = ~torch.isfinite(top)", "broken = torch.isnan(top)", NEXT),
    ("types.py", "self.temperature == 0 or self.top_k == 1", "self.temperature == 0", ARMS),
]  # fmt: skip
