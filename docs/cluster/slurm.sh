#!/usr/bin/env bash
# Trains in several processes under SLURM, one a GPU, and goes on by itself after a failure:
#
#     sbatch docs/cluster/slurm.sh rnnsearch50 --workdir /shared/runs/rnnsearch50
#
# The folder must be one that all nodes see. Change the numbers to what your cluster has.

#SBATCH --job-name=bahdanau
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=bahdanau-%j.log
# Ten minutes before the time is over, this script is told, so that the run can be saved.
#SBATCH --signal=B:USR1@600

set -uo pipefail

if [ $# -eq 0 ]; then
    echo "usage: sbatch $0 CONFIG --workdir DIR [OPTIONS of bahdanau train]" >&2
    exit 2
fi

MOST_RESTARTS=20 # a run that fails so often fails for a reason
out_of_time=0

# SIGTERM has every process save and leave with exit code 143.
end_of_time() {
    out_of_time=1
    scancel --signal=TERM "$SLURM_JOB_ID.0"
}
trap end_of_time USR1

# JAX finds the other processes through SLURM. One that dies ends all.
srun --kill-on-bad-exit=1 bahdanau train "$@" &
step=$!
wait "$step"
code=$?
if [ "$out_of_time" -eq 1 ]; then # `wait` was only interrupted
    wait "$step"
    code=$?
fi

# 2 is an error that only you can correct; after any other, training resumes from the last good checkpoint.
if [ "$out_of_time" -eq 1 ] || { [ "$code" -ne 0 ] && [ "$code" -ne 2 ]; }; then
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "$MOST_RESTARTS" ]; then
        echo "starting again (exit code $code, restart ${SLURM_RESTART_COUNT:-0})"
        exec scontrol requeue "$SLURM_JOB_ID"
    fi
fi
exit "$code"
