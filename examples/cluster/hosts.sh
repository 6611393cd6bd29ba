#!/bin/sh
# torchrun over several hosts without a scheduler: the same command on each of them, the run directory on a file
# system that they share. Host 0 supervises, the others follow; whichever is started first waits for the rest.
#
#   hosts.sh conf=pretrain.yaml /shared/runs/pretrain node1 node2 node3
#
# Ends with the exit code of host 0. 75 means: saved and stopped, the same command goes on.
set -eu
conf=$1 run=$2
shift 2
first=$1 index=0
for host in "$@"; do
    ssh "$host" "cd '$PWD' && exec orchestrate run '$conf' 'run.dir=$run' launcher=nodes launcher.nodes=$# \
        launcher.index=$index launcher.host=$first" &
    [ "$index" -gt 0 ] || supervisor=$!
    index=$((index + 1))
done
wait "$supervisor"
