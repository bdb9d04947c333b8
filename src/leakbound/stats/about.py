"""How the target of a statement about several questions begins: its writer's and readers' words.

An estimate says what it is about in its `target`, for people. Whoever looks for a statement among
others finds it by one of these beginnings, with which whoever makes it has begun.
"""

from __future__ import annotations

MEAN = "the mean over these questions"
WORST = "the worst of these questions"
WORST_QUERY = "the worst of these queries"
