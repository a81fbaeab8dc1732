package slurm

import (
	"context"
	"slices"
)

// Partition is what "scontrol show partition --json" has of one.
type Partition struct {
	Name  string `json:"name"`
	Nodes struct {
		Names string `json:"configured"`
		Total int64  `json:"total"`
	} `json:"nodes"`
	Accounts Lists `json:"accounts"`
	QOS      Lists `json:"qos"`
	State    struct {
		State []string `json:"state"`
	} `json:"partition"`
	Most struct {
		// Minutes a job may run, and how many nodes it may have.
		Minutes Number `json:"time"`
		Count   Number `json:"nodes"`
	} `json:"maximums"`
}

// Lists are who may, and who may not; empty for everybody. Assigned is the partition's own QOS, whose limits bound its jobs
// beside those of each job's QOS.
type Lists struct {
	Allowed  string `json:"allowed"`
	Deny     string `json:"deny"`
	Assigned string `json:"assigned,omitempty"`
}

// Up says whether the partition's jobs begin.
func (p *Partition) Up() bool {
	return slices.ContainsFunc(p.State.State, func(s string) bool { return s == "UP" || s == "DRAIN" })
}

// FindPartitions asks for those of the names that there are.
func FindPartitions(ctx context.Context, a Asker, names ...string) ([]Partition, error) {
	var answer struct {
		Partitions []Partition `json:"partitions"`
	}
	if err := ask(ctx, a, &answer, "scontrol", "show", "partition", "--json"); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(answer.Partitions, func(p Partition) bool { return !slices.Contains(names, p.Name) }), nil
}

// Reservation is what "scontrol show reservation --json" has of one.
type Reservation struct {
	Name     string   `json:"name"`
	Start    Number   `json:"start_time"`
	End      Number   `json:"end_time"`
	Users    string   `json:"users"`
	Accounts string   `json:"accounts"`
	Nodes    string   `json:"node_list"`
	Flags    []string `json:"flags"`
}

// Reservations asks for all.
func Reservations(ctx context.Context, a Asker) ([]Reservation, error) {
	var answer struct {
		Reservations []Reservation `json:"reservations"`
	}
	err := ask(ctx, a, &answer, "scontrol", "show", "reservation", "--json")
	return answer.Reservations, err
}

// License is what "scontrol show licenses --json" has of one.
type License struct {
	Name     string `json:"LicenseName"`
	Total    int64  `json:"Total"`
	Used     int64  `json:"Used"`
	Free     int64  `json:"Free"`
	Reserved int64  `json:"Reserved"`
}

// Licenses asks for all.
func Licenses(ctx context.Context, a Asker) ([]License, error) {
	var answer struct {
		Licenses []License `json:"licenses"`
	}
	err := ask(ctx, a, &answer, "scontrol", "show", "licenses", "--json")
	return answer.Licenses, err
}
