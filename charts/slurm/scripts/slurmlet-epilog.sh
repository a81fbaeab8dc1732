#!/bin/sh
# slurmlet: the agent says when the pods of the job are gone.
[ -e "/run/slurmlet/holds/$SLURM_JOB_ID" ] || exit 0
exec /run/slurmlet/epilog
