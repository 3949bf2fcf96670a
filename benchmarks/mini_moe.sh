#!/usr/bin/env bash
# From text to the policies' figures, on one GPU: train, record, plan four shares, let every policy write.
# Usage: benchmarks/mini_moe.sh TOKENS.xz WORK; then again with another limit, until mini_moe_policies.py says that nothing is left.
# What is there already is not made again. Each part is written as it is measured, so WORK can be taken at any time.
set -euo pipefail

text=$1 work=$2 here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3} layers=${LAYERS:-5} trained=${TRAINED:-250} conversations=${CONVERSATIONS:-128}
limit=${LIMIT:-600} # seconds until no part is begun any more, of all this
export PYTHONUNBUFFERED=1 PYTHONPATH=$here/../vllm_plugin${PYTHONPATH:+:$PYTHONPATH}

say() { printf '%4d s: %s\n' "$SECONDS" "$*"; }

policies() { # RAW.json TEMPERATURES REPLIES OPTION...
    local raw=$1 temperatures=$2 replies=$3 after=()
    shift 3
    [[ ! -e $raw ]] || after=(--after "$raw")
    "$python" "$here/mini_moe_policies.py" "$work/checkpoint" "$text" -o "$raw" --plans "$work/plans" \
        --temperatures "$temperatures" --replies "$replies" --healthy "${HEALTHY:-4096}" --first "${FIRST:-512}" --seconds $((limit - SECONDS)) "${after[@]}" "$@"
}

mkdir -p "$work/plans"
if [[ ! -e $work/checkpoint/model.safetensors ]]; then
    "$python" "$here/mini_moe_train.py" "$text" -o "$work/checkpoint" --seconds "$trained" --layers "$layers" \
        ${ROWS:+--rows "$ROWS"} | tee "$work/train.log" | tail -n 1
    say trained
fi
if [[ ! -e $work/measured.json ]]; then
    "$python" "$here/mini_moe_measure.py" "$work/checkpoint" "$text" -o "$work/measured.json" --work "$work/calibration" \
        --replies "$work/talks.safetensors" --conversations "$conversations" --parts curves,calibration
    say recorded
fi
planning=()
for share in 90 75 60 50; do
    [[ ! -e $work/plans/mini-$share.json ]] || continue
    "$python" -m sparkctl_vllm.cli plan "$work/checkpoint" \
        --recording "$work/calibration/recording" --work "$work/calibration/survey" \
        --share "0.$share" --eps 50 -o "$work/plans/mini-$share" >"$work/plans/mini-$share.log" &
    planning+=($!)
done
for one in ${planning[@]+"${planning[@]}"}; do wait "$one"; done
say planned
[[ -e $work/along.json ]] || "$python" "$here/mini_moe_policies.py" "$work/checkpoint" "$text" -o "$work/along.json" --plans "$work/plans" \
    --talks "$work/talks.safetensors" --workers 1
((SECONDS < limit)) || exit 0
# Two at a time: what one judges on the CPU hides behind what the other writes on the GPU.
policies "$work/cold.json" 0.7,0.0 "${FEWER_REPLIES:-1024}" --kept "$work/kept-cold" --workers 6 >"$work/cold.log" 2>&1 &
policies "$work/one.json" 1.0 "${REPLIES:-2048}" --kept "$work/kept-one" --workers 8
wait || say "the colder temperatures broke off: $work/cold.log"
say done
