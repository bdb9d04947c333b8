"""Where a model runs is chosen alike from Python and from the command line."""

from __future__ import annotations

from inspect import signature

import click
import pytest

from leakbound.cli import COMMANDS, group
from leakbound.engines.classify import CLASSIFIERS
from leakbound.engines.loading import Checkpoint, load_model
from leakbound.engines.models import OpenModels
from leakbound.study import ModelSettings
from leakbound.unlearning import TrainingSettings


def test_python_takes_the_gpu_that_the_command_line_takes() -> None:
    found = [settings().device for settings in (ModelSettings, TrainingSettings, OpenModels)]
    loaders = (load_model, Checkpoint.open, *CLASSIFIERS.values())
    found += [signature(load).parameters["device"].default for load in loaders]
    assert set(found) == {"auto"}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_says_otherwise(name: str) -> None:
    context = click.Context(group)
    command = group.get_command(context, name)
    assert command is not None
    options = (option for option in command.params if option.name == "device")
    assert not {option.get_default(context) for option in options} & {"cpu", "cuda"}
