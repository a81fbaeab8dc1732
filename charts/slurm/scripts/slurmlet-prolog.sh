#!/bin/sh
# slurmlet: a node of a job that stands for Kubernetes' pods keeps its next jobs away until these are
# gone. The comment is a hint: a hold that nobody needs costs its job's epilog one question.
case $SLURM_JOB_COMMENT in
slurmlet.dev/group=*)
	[ -d /run/slurmlet/holds ] && touch "/run/slurmlet/holds/$SLURM_JOB_ID"
	;;
esac
exit 0
