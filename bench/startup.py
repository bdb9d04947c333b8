"""How long `leakbound --help` and `import leakbound` take; neither may import torch.

python bench/startup.py [--rounds 15]
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from runner import options, table

COMMANDS = {
    "leakbound --help": ["-m", "leakbound", "--help"],
    "leakbound evaluate --help": ["-m", "leakbound", "evaluate", "--help"],
    "import leakbound": ["-c", "import leakbound"],
    "python alone": ["-c", "pass"],
}


def main() -> None:
    rounds, rows = options(__doc__, rounds=15).rounds, []
    for name, command in COMMANDS.items():
        seconds = []
        for _ in range(rounds):
            started = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            seconds.append(time.perf_counter() - started)
        rows.append({"command": name, "median": np.median(seconds), "slowest": max(seconds)})
    table(
        rows, {"command": "`{command}`", "median": "{median:.3f} s", "slowest": "{slowest:.3f} s"}
    )


if __name__ == "__main__":
    main()
