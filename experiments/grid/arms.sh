#!/usr/bin/env bash
# Ways to sample from several models on one GPU under MPS, to the end and without anybody watching.
#   MODEL=FOLDER DATA=DIR [WORK=out/grid] [RESULTS=out/grid-results] [ARMS=arms.toml] arms.sh CELL-sSEED...
# A lane for each cell: train it, sample validation in all ways, wait for its plan and for that of all
# together, sample the test sets by both, and what was trained also as the rest of the grid does; ARMS
# may ask for less. The base model, and means of others, begin once the others are trained. One process
# judges for all, and what is judged is in RESULTS/arms, or what ARMS is called, every half a minute.
# The same command goes on.
# Exit status: 1 if a lane or the judge went wrong, after the others have ended.
set -uo pipefail
here=$(dirname "$0")
arms_file=$(realpath "${ARMS:-$here/arms.toml}")
cd "$here/../.." || exit
work=${WORK:-out/grid} results=${RESULTS:-out/grid-results}
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)  # nproc believes them
places=(--work "$work" --data-dir "$DATA")
export PYTHONPATH=src:.${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
flags=$(mktemp -d)  # CELL.trained, also if that failed; failed; sampled: all lanes have ended
trap 'rm -r "$flags"' EXIT
mkdir -p "$work"
made() { [[ $1 == base-s* || $1 == *-of-* || $1 == *-kept-* ]]; }

to_train=()
for cell in "$@"; do made "$cell" || to_train+=("$cell"); done

arms() { python3 -m experiments.grid.arms "$@" --arms "$arms_file"; }

twice() { "$@" || { echo "once more: $*"; "$@"; }; }

train() {  # a set to measure is needed, and --have: what has results elsewhere is trained all the same
    twice python3 -m experiments.grid.run "${1%-s*}" --seeds "${1##*-s}" --sets mbpp-validation --n 2 --judge-later \
        --judges $(( cores < 4 ? 1 : cores / 4 )) --beside $(( ${#to_train[@]} - 1 )) \
        "${places[@]}" --model "$MODEL" --results "$results" --have "$results"
}

trained() {  # all that are to be, or not to be had
    for other in "${to_train[@]}"; do
        until [ -e "$flags/$other.trained" ]; do sleep 1; done
    done
}

ways() {  # CELL PHASE
    twice arms sample "$1" --phase "$2" --beside $(( lanes - 1 )) "${places[@]}" --model "$MODEL"
}

planned() {  # all together only if nothing went wrong with another
    until [ -e "$work/$1/arms/plan.json" ] &&
        { [ "$lanes" = 1 ] || [ -e "$work/together.json" ] || [ -e "$flags/failed" ]; }; do
        kill -0 "$judge" 2>/dev/null || return 1
        sleep 1
    done
}

last() { [[ $1 == base-s* ]] || ways "$1" alone; }

begin() {
    if made "$1"; then trained || return; fi
    [[ $1 == base-s* ]] || train "$1"
}

lane() {
    begin "$1"
    local status=$?
    touch "$flags/$1.trained"
    [ "$status" = 0 ] && ways "$1" validation && planned "$1" && ways "$1" test && last "$1" && return
    echo "$1 went wrong"
    touch "$flags/failed"
}

all_lanes() {
    for cell in "$@"; do lane "$cell" > "$work/$cell.log" 2>&1 & done
    wait
    touch "$flags/sampled"
}

collect() {
    arms collect "$@" --work "$work" --results "$results/$(basename "$arms_file" .toml)" >> "$work/collect.log" 2>&1
}

lanes=$#
nvidia-cuda-mps-control -d 2>/dev/null || echo "no MPS: cells take turns on the GPU"
python3 -m experiments.grid.sets "${places[@]}" > "$work/sets.log" 2>&1 &  # the judge needs them last
twice nice -n 5 python3 -m experiments.grid.arms judge "$@" --follow --until "$flags/sampled" "${places[@]}" \
    --arms "$arms_file" --judges $(( cores < 2 ? 1 : cores * 3 / 4 )) > "$work/judge-arms.log" 2>&1 &
judge=$!
all_lanes "$@" &
while kill -0 "$judge" 2>/dev/null; do
    collect "$@"
    timeout 30 tail --pid="$judge" -f /dev/null
done
wait "$judge" || touch "$flags/failed"
wait  # for lanes that nobody judges for
collect "$@" || touch "$flags/failed"
[ ! -e "$flags/failed" ]
