// Package sack is the door in front of the socket where Slurm's commands get their credentials of auth/slurm (sack: Slurm's
// auth and cred kiosk). slurmd and sackd serve 150 connections at once, in 24.11 as in 26.05, and one that says nothing
// keeps its place for MessageTimeout: one user's 900 silent connections keep every other user's commands waiting for a
// minute. So the agent listens where users connect. A connection takes a place behind the door only once its request is
// complete, and each uid has its own share of the places. The daemon asks the kernel who has connected (SO_PEERCRED): the
// door connects to it with the ids of its visitor.
package sack
