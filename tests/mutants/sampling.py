"""Mutants of `leakbound.sampling`."""

# ruff: noqa: E501 (one mutant a line)
CHUNKS = "sampling/test_forest.py::test_more_chunks_leave_the_old_ones_untouched"
FORWARDS = "sampling/test_forest.py::test_one_forward_per_distinct_prefix"
GREEDY = "sampling/test_forest.py::test_greedy_is_one_completion"
FINISH = "sampling/test_forest.py::test_finish_reasons_and_confidence"
BROKEN = "sampling/test_forest.py::test_broken_logits_fail_their_query_alone_and_name_the_prefix"
LAW = "sampling/test_forest.py::test_counts_follow_the_exact_law"
BUDGET = "sampling/test_forest.py::test_draws_are_the_same_at_any_row_budget_and_in_any_company"
SHARED = (
    "sampling/test_forest.py::test_queries_with_one_prompt_share_a_tree_and_keep_their_own_draws"
)
ARMS = "evaluation/bounds/test_arms.py"
NEXT = "sampling/test_next_token.py"
PHILOX = "sampling/test_philox.py"
FLOORS = "sampling/test_law.py"
LEAF_FLOORS = "sampling/test_forest.py::test_a_floor_holds_whatever_the_logits_within_the_margin"
STEMS = "sampling/test_forest.py::test_draws_go_on_from_stems_by_the_law_that_follows_them"
EXPLORE = "sampling/test_explorer.py"
MASSES = f"{EXPLORE}::test_masses_are_exact_and_add_up"
NODE_FLOORS = f"{EXPLORE}::test_floors_hold_whatever_the_logits_within_the_margin"
LUMPS = f"{EXPLORE}::test_lumps_are_what_the_nodes_leave"
REST = f"{EXPLORE}::test_draws_follow_the_law_given_that_no_event_happens"
CERTAIN = f"{EXPLORE}::test_the_remainder_is_certain_but_for_the_margin"
PILOTS = f"{EXPLORE}::test_pilots_choices_and_draws_share_no_random_numbers"
FORCED = "sampling/test_forced.py"

MUTANTS = [
    # which draws stand on which prefix, and where they end
    ("sampling/forest.py", "child * width + np.repeat(rows.chunk, rows.count)", "child * width", CHUNKS),
    ("sampling/ending.py", "if path[-1] in self.eos:", "if False:", LAW),
    ("sampling/ending.py", "len(path) == self.longest", "len(path) == self.longest + 1", LAW),
    ("sampling/forest.py", "takes_over[len(rows) - 1 - np.unique(rows.parent[::-1], return_index=True)[1]]", "takes_over[np.unique(rows.parent, return_index=True)[1]]", BUDGET),
    ("sampling/forest.py", "self._model.release(np.setdiff1d(handles, going.parent))", "pass", GREEDY),
    # what is said of a leaf
    ("sampling/forest.py", "rows.logprob[parent_row] + picks.logprob[example]", "picks.logprob[example]", LAW),
    ("sampling/forest.py", "rows.p_max_sum[parent_row] + picks.p_max[parent_row]", "picks.p_max[parent_row]", FINISH),
    ("sampling/forest.py", "rows.p_max_sum[i] / len(rows.path[i])", "rows.p_max_sum[i]", FINISH),
    ("sampling/forest.py", "() if broken_at is not None else drawn", "drawn", BROKEN),
    ("sampling/forest.py", "self.usage.forwards += len(part)", "self.usage.forwards += 1", FORWARDS),
    # queries that share a tree
    ("sampling/forest.py", "x.counts[i * width : (i + 1) * width]", "x.counts[:width]", SHARED),
    ("sampling/forest.py", "if any(leaf.counts))", "if True)", SHARED),
    ("sampling/forest.py", "first.setdefault(root.token_ids, number)", "number", SHARED),
    ("sampling/forest.py", "name(r.query_id, c) for r in roots for c in chunks]", "name(root.query_id, c) for r in roots for c in chunks]", SHARED),
    ("sampling/forest.py", "tree = number if root.starts else", "tree = number if False else", "sampling/test_forest.py::test_roots_with_starts_have_trees_of_their_own"),
    # randomness
    ("sampling/forest.py", "name(r.query_id, c) for r in roots for c in chunks]", "name(r.query_id, 0) for r in roots for c in chunks]", CHUNKS),
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
    ("sampling/law.py", ".div_(temperature).exp_()", ".div_(temperature**2).exp_()", NEXT),
    ("sampling/law.py", "limit = decoding.top_k or size", "limit = decoding.top_k and decoding.top_k + 1 or size", NEXT),
    ("sampling/law.py", "reach = (decoding.top_p - _NUCLEUS_TOLERANCE)", "reach = (decoding.top_p + _NUCLEUS_TOLERANCE)", NEXT),
    ("sampling/law.py", "(upto < reach[:, None]).sum(dim=-1) + 1)", "(upto < reach[:, None]).sum(dim=-1) + 2)", NEXT),
    ("sampling/law.py", "ids, order = ids.sort(dim=-1)", "ids, order = ids.sort(dim=-1, descending=True)", NEXT),
    ("sampling/law.py", "(mass > mass[:, -1:])", "(mass >= mass[:, -1:])", NEXT),
    ("sampling/law.py", "if limit <= width else weights.sum(dim=-1)", "if limit <= width else upto[:, -1]", NEXT),
    ("sampling/next_token.py", "target = u * upto[row, -1]", "target = u", NEXT),
    ("sampling/next_token.py", "torch.log(chosen) - torch.log(upto[row, -1])", "torch.log(chosen)", NEXT),
    ("sampling/next_token.py", "torch.log(part.mass[slot, index]) - torch.log(total[slot])", "torch.log(part.mass[slot, index])", NEXT),
    ("sampling/next_token.py", "at_one.logits[row, tokens] - at_one.top[row] - at_one.log_total[row]", "at_one.logits[row, tokens] - at_one.top[row]", NEXT),
    ("sampling/next_token.py", "offset = torch.minimum(offset, _last_positive(inside))", "pass", NEXT),
    ("sampling/next_token.py", "offset = torch.maximum(offset, (inside > 0).to(torch.int8).argmax(dim=-1))", "pass", NEXT),
    ("sampling/law.py", "logits = logits.double()", "logits = logits.float()", NEXT),
    ("sampling/law.py", "        return mean > threshold, np.zeros", "        return mean >= threshold, np.zeros", NEXT),
    ("sampling/law.py", "mean = (p_max_sum + p_max) / depth", "mean = p_max", NEXT),
    ("sampling/law.py", "broken = ~torch.isfinite(top)", "broken = torch.isnan(top)", NEXT),
    # floors: what is certain within the margin
    ("sampling/law.py", "return logprob, logprob - margin / temperature", "return logprob, logprob - margin", FLOORS),
    ("sampling/law.py", "each - log_total(part.possible) - margin / temperature", "each - log_total(part.possible)", FLOORS),
    ("sampling/law.py", "each - log_total(part.possible) - margin / temperature", "each - log_total(part.kept) - margin / temperature", FLOORS),
    ("sampling/law.py", "torch.where(place < part.sure[:, None], least", "torch.where(place < part.kept[:, None], least", FLOORS),
    ("sampling/law.py", "sure, possible = may <= limit, must < limit", "sure, possible = must < limit, must < limit", FLOORS),
    ("sampling/law.py", "sure, possible = may <= limit, must < limit", "sure, possible = may <= limit, may <= limit", FLOORS),
    ("sampling/law.py", "(1 - p) * before * factor + slack < p * after", "(1 - p) * before + slack < p * after", FLOORS),
    ("sampling/law.py", "(1 - p) * before <= factor * p * (most - before) + slack", "factor * (1 - p) * before <= p * (most - before) + slack", FLOORS),
    ("sampling/law.py", "possible.sum(dim=-1)) < width", "possible.sum(dim=-1)) <= width", FLOORS),
    ("sampling/law.py", "torch.searchsorted(negated, negated / factor, right=True)", "torch.searchsorted(negated, negated, right=True)", FLOORS),
    ("sampling/law.py", "amax(dim=-1) > margin + _ROUNDING", "amax(dim=-1) >= 0", FLOORS),
    ("sampling/law.py", "torch.where(second, either, torch.where(first", "torch.where(second & ~first, either, torch.where(first", FLOORS),
    ("sampling/law.py", "(mean / factor <= threshold) & (threshold <= mean * factor)", "(mean < threshold) & (threshold <= mean * factor)", FLOORS),
    ("sampling/law.py", "(mean / factor <= threshold) & (threshold <= mean * factor)", "(mean / factor <= threshold) & (threshold < mean)", FLOORS),
    ("sampling/next_token.py", "floor = logprob - margin / decoding.temperature", "floor = logprob - margin", FLOORS),
    ("sampling/next_token.py", "elif truncated or greedy.any() or doubtful.any():", "elif truncated:", FLOORS),
    ("sampling/forest.py", "rows.floor[parent_row] + picks.floor[example]", "rows.floor[parent_row] + picks.logprob[example]", LEAF_FLOORS),
    ("sampling/forest.py", "floor=self.floor + step.floor", "floor=self.floor + step.logprob", NODE_FLOORS),
    # draws that go on from stems
    ("sampling/forest.py", "takes_over &= ~rows.lent", "pass", STEMS),
    ("sampling/forest.py", "return rows.take(np.flatnonzero(~self._keep_leaves(rows)))", "return rows", REST),
    ("sampling/forest.py", "digest=philox.digests([stem.path for stem in stems])", "digest=philox.digests([() for stem in stems])", PILOTS),
    # exploration
    ("sampling/search.py", "return math.exp(self.stem.floor) * (self.high - self.low)", "return math.exp(self.stem.floor) / len(self.stem.path or [0]) ** 4", f"{EXPLORE}::test_exploration_is_best_first"),
    ("sampling/search.py", "return math.exp(self.stem.logprob) * self.split.rest\n", "return self.split.rest\n", REST),
    ("sampling/search.py", "return math.exp(self.stem.floor) * self.split.rest_floor", "return math.exp(self.stem.floor) * self.split.rest", CERTAIN),
    ("sampling/search.py", "torch.exp(each.gather(1, ids)) * ~heavy", "torch.exp(each.gather(1, ids))", LUMPS),
    ("sampling/search.py", "            if low == high:\n", "            if False:\n", f"{EXPLORE}::test_settled_prefixes_are_events_beside_draws_too"),
    ("sampling/search.py", "self.closed.add(event.token_ids)", "pass", REST),
    ("sampling/remainder.py", "u * upto[-1], side", "u, side", REST),
    ("sampling/remainder.py", 'f"{draws.purpose}:lump"', "draws.purpose", PILOTS),
    ("sampling/remainder.py", "others[0, [token for token, _ in lump.split.children]] = -math.inf", "pass", REST),
    ("sampling/remainder.py", "math.exp(each.stem.floor) for each", "math.exp(each.stem.logprob) for each", CERTAIN),
    ("sampling/explore.py", 'purpose = f"{self._effort.purpose}:pilot{number}"', "purpose = self._effort.purpose", PILOTS),
    ("sampling/explore.py", "for each in search.open if not leaves", "for each in search.open", MASSES),
    ("sampling/explore.py", "if leaves and not broken else 0.0", "if not broken else 0.0", MASSES),
    ("sampling/explore.py", "min(self._rows, goal - course.search.explored)", "self._rows", f"{EXPLORE}::test_an_exact_effort_is_never_exceeded"),
    ("sampling/explore.py", "search.explored < _QUARTER * self.effort.forwards", "search.explored < 0", f"{EXPLORE}::test_a_hybrid_explores_a_quarter_at_least_and_leaves_the_rest_to_draws"),
    ("sampling/explore.py", "return int(min(self.forecast.affordable(self.left), _MOST_DRAWS))", "return int(min(self.forecast.affordable(3 * self.left), _MOST_DRAWS))", f"{EXPLORE}::test_the_total_comes_out_near_the_effort"),
    ("sampling/explore.py", "effort.forwards >= decoding.max_new_tokens", "effort.forwards >= 1", f"{EXPLORE}::test_an_effort_that_may_not_pay_for_one_draw_is_all_explored"),
    ("sampling/pilot.py", "return (1 - self.rate(n)) * visits > self.rate(n) * math.exp(-visits)", "return True", f"{EXPLORE}::test_auto_explores_little_where_the_law_is_diffuse_and_nothing_leaks"),
    ("sampling/pilot.py", "return len(paths - search.expanded)", "return len(paths)", EXPLORE),
    # teacher forcing
    ("sampling/forced.py", "None if any(before) or not ids else", "None if not ids else", FORCED),
    ("sampling/forced.py", "if stem is None or reason is None:", "if stem is None:", FORCED),
    ("sampling/forced.py", "if step.logprob > -math.inf:", "if True:", FORCED),
    ("sampling/forced.py", "[] if law.broken[row] else sorted(self._after[key])", "sorted(self._after[key])", FORCED),
    ("sampling/forced.py", "confidence=stem.p_max_sum / len(stem.path)", "confidence=stem.p_max_sum", FORCED),
    ("types/decoding.py", "self.temperature == 0 or self.top_k == 1", "self.temperature == 0", ARMS),
]  # fmt: skip
