"""How long `leakbound --help` and `import leakbound` take; neither may import torch.

python bench/startup.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

COMMANDS = {
    "leakbound --help": ["-m", "leakbound", "--help"],
    "leakbound evaluate --help": ["-m", "leakbound", "evaluate", "--help"],
    "import leakbound": ["-c", "import leakbound"],
    "python alone": ["-c", "pass"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.rounds):
        for name, command in COMMANDS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - started)
    print("| command | median | slowest |\n|---|---|---|")
    for name, times in seconds.items():
        print(f"| `{name}` | {np.median(times):.3f} s | {max(times):.3f} s |")


if __name__ == "__main__":
    main()
