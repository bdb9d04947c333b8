#!/bin/sh
# Test the package with the lowest versions that pyproject.toml allows: `make test-lowest`.
#
# uv resolves them into a separate environment. Only torch has the tested version, because older
# builds are not available everywhere. Then the tests that use each library run. Warnings do not fail
# a test here, because old libraries run with newer ones.
set -eu
cd "$(dirname "$0")/.."
env=${LOWEST:-.lowest}
python=${PYTHON:-python3}
torch=$(grep '^torch==' constraints.txt)
pinned=$(grep -E '^(pytest|pytest-xdist|rouge_score)==' constraints.txt)

[ -x "$env/bin/uv" ] || { "$python" -m venv "$env" && "$env/bin/pip" install --quiet uv "$torch"; }
extras="models lora judge centres embed"
# shellcheck disable=SC2046
"$env/bin/uv" pip compile --quiet pyproject.toml $(printf -- '--extra %s ' $extras) \
    --resolution lowest-direct --python "$env/bin/python" --no-annotate --no-header \
    --override /dev/stdin <<OVERRIDE | grep -vE '^(torch|nvidia|cuda|triton)' > "$env/lowest.txt"
$torch
OVERRIDE
# shellcheck disable=SC2086
"$env/bin/uv" pip install --quiet --python "$env/bin/python" --no-deps -r "$env/lowest.txt" $pinned
"$env/bin/uv" pip install --quiet --python "$env/bin/python" $pinned
"$env/bin/uv" pip install --quiet --python "$env/bin/python" --no-deps --editable .

# shellcheck disable=SC2046
direct=$(grep -oE '"[a-z0-9_.-]+>=' pyproject.toml | tr -d '">=' | sort -u)
for name in $direct; do grep -E "^$name==" "$env/lowest.txt" || true; done

# Tests of each library: click and rich, numpy and scipy, pyarrow, rapidfuzz, jinja2, torch and
# transformers, accelerate, peft, scikit-learn, sentence-transformers, httpx2, gguf.
[ $# -gt 0 ] || set -- tests/cli/test_console.py tests/cli/test_exporting.py \
    tests/stats/test_golden_values.py tests/stats/test_oracles.py tests/store/test_store_files.py \
    tests/store/test_masses.py tests/text/test_rouge.py tests/reporting/test_report_page.py \
    tests/engines/test_prompting.py tests/engines/test_templates.py tests/engines/test_loading.py \
    tests/engines/test_hf.py tests/unlearning/test_unlearn.py tests/unlearning/test_trained_weights.py \
    tests/unlearning/test_centres.py tests/engines/test_text_models.py \
    tests/served/test_endpoint.py
HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 exec "$env/bin/python" -m pytest -W default \
    -m "not slow and not fault and not browser and not gpu" "$@"
