package sack

// Path is where Slurm's commands get their credentials of auth/slurm, from slurmd
// or from sackd (Slurm's sack_api.c). 26.05 has a variable for another path, 24.11 none.
const Path = "/run/slurm/sack.socket"
