"""Runs to views: estimates and completions are read here, a part at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from residua.errors import InputError
from residua.evaluate.bound import GREEDY_SCORE
from residua.evaluate.sample import CONTROL, CONTROL_GREEDY, GREEDY, control_of
from residua.evaluate.score import slug
from residua.report.texts import chosen_texts
from residua.report.view import (
    BINS,
    Bound,
    Measured,
    Model,
    Overall,
    Question,
    ScorerView,
    Text,
    Texts,
    View,
)
from residua.scorers import make_scorer
from residua.store import Arm, Run
