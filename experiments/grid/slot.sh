#!/usr/bin/env bash
# A stretch of time on one GPU: cells three at a time under MPS, and whatever cores are left judge.
#   MODEL=FOLDER DATA=DIR [WORK=out/grid] [RESULTS=out/grid-results] slot.sh SECONDS CELL... [-- KEYS]
# Judging goes on after it has ended, until it is killed or the machine is gone.
set -euo pipefail
cd "$(dirname "$0")/../.."
budget=$1; shift
work=${WORK:-out/grid} results=${RESULTS:-out/grid-results}
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)  # nproc believes them
own=$(( cores < 4 ? 1 : cores / 4 ))  # judges of a cell in training
export PYTHONPATH=src:.${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$work"
nvidia-cuda-mps-control -d 2>/dev/null || echo "no MPS: cells take turns on the GPU"
setsid nice -n 15 python3 -m experiments.grid.judge --follow --work "$work" --results "$results" \
    --judges $(( cores < 2 ? 1 : cores * 3 / 4 )) > "$work/judge.log" 2>&1 &
exec python3 -m experiments.grid.run --jobs 3 --judge-later --judges "$own" --later "${LATER:-100}" \
    --budget "$budget" --work "$work" --results "$results" --data-dir "$DATA" --model "$MODEL" "$@"
