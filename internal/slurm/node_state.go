package slurm

import (
	"slices"
	"strings"
)

// NodeState is the state of a node: its base state first, and the flags beside it, by the names of Slurm's JSON, as in
// IDLE, DRAIN, DYNAMIC_NORM.
type NodeState []string

// trait is what a base state or a flag says of a node.
type trait uint16

const (
	// isBase: it is a base state (NODE_STATE_BASE of slurm.h), and no flag.
	isBase trait = 1 << iota
	// hasJobs: jobs run there. hasLeftovers: jobs have left something behind there, which slurmctld waits for.
	hasJobs
	hasLeftovers
	// isSilent: slurmctld does not count the node's slurmd as alive.
	isSilent
	// isClosed: the node gets no new jobs until somebody or slurmctld lifts that.
	isClosed
	// isPoweredDown: slurmctld has suspended the node, or does so now. It counts on nothing there, and wants no pod.
	isPoweredDown
	// isStarting: slurmctld waits for a slurmd that its power saving has had started, or is to.
	isStarting
	// isInPowerSaving: the node is in the hands of power saving, on one of its ways.
	isInPowerSaving
	// isReserved: a reservation has begun on the node.
	isReserved
	// isRebooting: slurmctld has the node rebooted, or is to.
	isRebooting
)

// traits say what each base state and each flag means. A name that is not among them, of a later Slurm, means nothing.
//
//	              who sets it                      what it says
//	IDLE          slurmctld                        no job is there
//	ALLOCATED     slurmctld                        jobs have all of its CPUs
//	MIXED         slurmctld                        jobs have some of its CPUs
//	DOWN          slurmctld, or somebody           jobs were taken off it
//	ERROR, UNKNOWN, FUTURE  slurmctld              no slurmd has registered, or none that counts
//	COMPLETING    slurmctld                        it waits for what jobs leave behind
//	DRAIN, FAIL   slurmctld, or somebody           no new jobs; the reason says whose it is (package reasons)
//	NOT_RESPONDING  slurmctld                      its slurmd does not answer
//	INVALID_REG   slurmctld                        its slurmd has registered less than the record has
//	CLOUD         slurm.conf, or an elastic set    power saving starts and ends it
//	DYNAMIC_NORM  slurmd                           the record came with the registration
//	POWER_UP, POWERING_UP    power saving          it is to be started; it starts
//	POWER_DOWN, POWERING_DOWN, POWERED_DOWN        it is to be suspended once idle; it is being; it was
//	RESERVED, MAINTENANCE    a reservation         it has begun there
//	REBOOT_REQUESTED, REBOOT_ISSUED  somebody      it reboots once idle; it reboots
var traits = map[string]trait{
	"IDLE":      isBase,
	"ALLOCATED": isBase | hasJobs,
	"MIXED":     isBase | hasJobs,
	"DOWN":      isBase | isSilent | isClosed,
	"ERROR":     isBase | isSilent | isClosed,
	"UNKNOWN":   isBase | isSilent,
	"FUTURE":    isBase | isSilent,

	"COMPLETING":     hasLeftovers,
	"DRAIN":          isClosed,
	"FAIL":           isClosed,
	"NOT_RESPONDING": isSilent,

	"POWER_UP":      isStarting | isInPowerSaving,
	"POWERING_UP":   isStarting | isInPowerSaving,
	"POWER_DOWN":    isInPowerSaving,
	"POWERING_DOWN": isPoweredDown | isInPowerSaving,
	"POWERED_DOWN":  isPoweredDown | isInPowerSaving,

	"RESERVED":         isReserved,
	"MAINTENANCE":      isReserved,
	"REBOOT_REQUESTED": isRebooting,
	"REBOOT_ISSUED":    isRebooting,
}

// has says whether the base state or a flag has one of the traits.
func (s NodeState) has(any trait) bool {
	return slices.ContainsFunc(s, func(one string) bool { return traits[one]&any != 0 })
}

// Is says whether the base state or a flag has one of the names.
func (s NodeState) Is(names ...string) bool {
	return slices.ContainsFunc(s, func(one string) bool { return slices.Contains(names, one) })
}

// Base is the base state; empty where there is none that is known.
func (s NodeState) Base() string {
	for _, one := range s {
		if traits[one]&isBase != 0 {
			return one
		}
	}
	return ""
}

// Flags are all but the base state.
func (s NodeState) Flags() []string {
	if len(s) > 0 && traits[s[0]]&isBase != 0 {
		return s[1:]
	}
	return slices.DeleteFunc(slices.Clone(s), func(one string) bool { return one == s.Base() })
}

// RunsJobs says whether jobs run on the node.
func (s NodeState) RunsJobs() bool { return s.has(hasJobs) }

// HoldsJobs says whether jobs run on the node or have left something behind there. A suspended job holds a node whose state
// does not say so.
func (s NodeState) HoldsJobs() bool { return s.has(hasJobs | hasLeftovers) }

// Responds says whether slurmctld counts the node's slurmd as alive.
func (s NodeState) Responds() bool { return !s.has(isSilent) }

// Closed says whether the node gets no new jobs, because somebody or slurmctld has drained it or set it DOWN.
func (s NodeState) Closed() bool { return s.has(isClosed) }

// Off says whether slurmctld has suspended the node, or does so now: it counts on nothing there.
func (s NodeState) Off() bool { return s.has(isPoweredDown) }

// Starting says whether slurmctld waits for a slurmd that power saving starts.
func (s NodeState) Starting() bool { return s.has(isStarting) }

// InPowerSaving says whether the node is on one of the ways of power saving.
func (s NodeState) InPowerSaving() bool { return s.has(isInPowerSaving) }

// Reserved says whether a reservation has begun on the node.
func (s NodeState) Reserved() bool { return s.has(isReserved) }

// Reboots says whether the node reboots, or is to.
func (s NodeState) Reboots() bool { return s.has(isRebooting) }

// Up says whether the node is there and in service.
func (s NodeState) Up() bool { return !s.has(isSilent|isPoweredDown|isStarting) && s.Base() != "" }

// ParseState reads a state as scontrol and sinfo write it: "IDLE+CLOUD+POWERED_DOWN", also in small letters.
func ParseState(text string) NodeState {
	return NodeState(strings.Split(strings.ToUpper(strings.TrimSpace(text)), "+")).ordered()
}

// ordered has the base state first.
func (s NodeState) ordered() NodeState {
	if i := slices.IndexFunc(s, func(one string) bool { return traits[one]&isBase != 0 }); i > 0 {
		one := s[i]
		copy(s[1:], s[:i])
		s[0] = one
	}
	return s
}
