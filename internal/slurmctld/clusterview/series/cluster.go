package series

import (
	"cmp"
	"maps"
	"slices"

	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// These tables have what Slurm does not have as a metric.

// Most series that one row has, where people or Slurm choose the values of its labels. The rest is
// one series with the value other.
const (
	mostReasons  = 40
	mostFeatures = 50
	mostLicenses = 100
	mostRPCs     = 100
)

var ofView = []family[clusterview.View]{
	{
		"up", "",
		"1 if slurmctld has answered the last question of each family; otherwise values are old, and those that " +
			"were never told are not here", func(v *clusterview.View, add func(float64, ...string)) {
			add(truth(v.Up()))
		},
	},
	{"info", "cluster,version", "1, with the cluster's name and Slurm's version", func(v *clusterview.View, add func(float64, ...string)) {
		if v.Cluster != "" || v.Version != "" {
			add(1, v.Cluster, v.Version)
		}
	}},
	{
		"read_timestamp_seconds", "family", "When slurmctld told the values of a family; time() minus this is their age",
		func(v *clusterview.View, add func(float64, ...string)) {
			ofReadings(v, func(family string, r clusterview.Reading) {
				if !r.At.IsZero() {
					add(exposition.Seconds(r.At), family)
				}
			})
		},
	},
	{"read_duration_seconds", "family", "How long slurmctld's last answer took", func(v *clusterview.View, add func(float64, ...string)) {
		ofReadings(v, func(family string, r clusterview.Reading) {
			if !r.At.IsZero() {
				add(r.Took.Seconds(), family)
			}
		})
	}},
	{"read_failed", "family", "1 if the last question had no answer", func(v *clusterview.View, add func(float64, ...string)) {
		ofReadings(v, func(family string, r clusterview.Reading) { add(truth(r.Err != nil), family) })
	}},
	{"licenses", "license", "Licenses that there are", func(v *clusterview.View, add func(float64, ...string)) {
		ofLicenses(v, func(l clusterview.License) { add(float64(l.Total), l.Name) })
	}},
	{"licenses_used", "license", "Licenses that jobs have", func(v *clusterview.View, add func(float64, ...string)) {
		ofLicenses(v, func(l clusterview.License) { add(float64(l.Used), l.Name) })
	}},
	{"licenses_free", "license", "Licenses that nobody has", func(v *clusterview.View, add func(float64, ...string)) {
		ofLicenses(v, func(l clusterview.License) { add(float64(l.Free), l.Name) })
	}},
	{"licenses_reserved", "license", "Licenses in reservations", func(v *clusterview.View, add func(float64, ...string)) {
		ofLicenses(v, func(l clusterview.License) { add(float64(l.Reserved), l.Name) })
	}},
	{
		"reservations", "state", "Reservations that are active, and that are planned",
		func(v *clusterview.View, add func(float64, ...string)) {
			ofReservations(v, func(clusterview.Reservation) int { return 1 }, add)
		},
	},
	{
		"reservation_nodes", "state", "Nodes of reservations; a node in two of them counts twice",
		func(v *clusterview.View, add func(float64, ...string)) {
			ofReservations(v, func(r clusterview.Reservation) int { return r.Nodes }, add)
		},
	},
	{
		"reservation_cpus", "state", "CPUs of reservations; a CPU in two of them counts twice",
		func(v *clusterview.View, add func(float64, ...string)) {
			ofReservations(v, func(r clusterview.Reservation) int { return r.CPUs }, add)
		},
	},
	{
		"rpcs_total", "type", "Requests to slurmctld by the type of message, since sdiag was reset",
		func(v *clusterview.View, add func(float64, ...string)) {
			ofRPCs(v, func(r clusterview.RPC) { add(float64(r.Count), r.Name) })
		},
	},
	{
		"rpc_seconds_total", "type",
		"How long slurmctld has worked on requests by the type of message, since sdiag was reset",
		func(v *clusterview.View, add func(float64, ...string)) {
			ofRPCs(v, func(r clusterview.RPC) { add(r.Sum.Seconds(), r.Name) })
		},
	},
	{
		"rpcs_pending", "", "Messages to nodes that wait in slurmctld for their turn (sdiag: pending RPCs)",
		func(v *clusterview.View, add func(float64, ...string)) {
			if v.Scheduler == nil {
				return
			}
			sum := int64(0)
			for _, r := range v.Scheduler.PendingRPCs {
				sum += r.Count
			}
			add(float64(sum))
		},
	},
}

var ofCounts = []family[counts]{
	{
		"jobs_waiting", "partition,reason", "Pending jobs by the reason why they wait; each task of an array counts",
		func(c *counts, add func(float64, ...string)) {
			addAmounts(bounded(c.waiting, 1, mostReasons), add)
		},
	},
	{
		"feature_nodes", "feature,state",
		"Nodes by feature and by one state, which is why a node takes no jobs if it takes none; a node set of the " +
			"chart is the feature of its name", func(c *counts, add func(float64, ...string)) {
			addAmounts(bounded(c.features, 0, mostFeatures), add)
		},
	},
	{
		"nodes_drained", "kind",
		"Nodes with flag DRAIN by the kind of the reason (slurmlet, not_responding, kill_task, prolog_epilog, registration, " +
			"health_check, reboot, power, job, disk, none, other); the status page and sinfo -R have the reasons",
		func(c *counts, add func(float64, ...string)) {
			for _, kind := range slices.Sorted(maps.Keys(c.drains)) {
				add(float64(c.drains[kind]), kind)
			}
		},
	},
}

// ofHistory has a counter for each partition, which begins at 0.
func ofHistory(partitions []*partitionCounts) []family[history] {
	return []family[history]{
		{"job_requeues_total", "partition", "Requeues of jobs since the agent has looked", func(h *history, add func(float64, ...string)) {
			for _, p := range partitions {
				n := h.requeues[p.record.Name]
				if n == nil {
					n = new(int)
				}
				add(float64(*n), p.record.Name)
			}
		}},
	}
}

const (
	waitingHelp = "How long the pending jobs of now have waited since they were eligible; this is no counter, so rate() has no meaning"
	waitHelp    = "How long jobs waited from when they were eligible until they started, of jobs that started since the agent has looked"
)

// ofShares are for Options.Users alone. An account has an empty user.
var ofShares = []metric[clusterview.Share]{
	{"fair_share", "Fair-share factor (sshare)", func(s *clusterview.Share) float64 { return s.FairShare }},
	{"shares_ratio", "Normalized shares (sshare)", func(s *clusterview.Share) float64 { return s.NormShares }},
	{"usage_ratio", "Effective usage (sshare)", func(s *clusterview.Share) float64 { return s.EffectiveUsage }},
	{"usage_cpu_seconds", "Raw usage, which decays (sshare)", func(s *clusterview.Share) float64 { return s.RawUsage }},
}

func ofReadings(v *clusterview.View, each func(family string, r clusterview.Reading)) {
	for _, family := range slices.Sorted(maps.Keys(v.Readings)) {
		each(string(family), v.Readings[family])
	}
}

// ofLicenses gives series to the licenses with the most, and the rest together.
func ofLicenses(v *clusterview.View, each func(clusterview.License)) {
	totals := map[string]int{}
	for _, l := range v.Licenses {
		totals[l.Name] = l.Total
	}
	kept, rest := largest(totals, mostLicenses), clusterview.License{}
	for _, l := range v.Licenses {
		if slices.Contains(kept, l.Name) {
			each(l)
			continue
		}
		rest = clusterview.License{
			Name: otherLabel, Total: rest.Total + l.Total, Used: rest.Used + l.Used,
			Free: rest.Free + l.Free, Reserved: rest.Reserved + l.Reserved,
		}
	}
	if rest.Name != "" {
		each(rest)
	}
}

// ofReservations has no names: scontrol names a reservation after its first user.
func ofReservations(v *clusterview.View, amount func(clusterview.Reservation) int, add func(float64, ...string)) {
	read := v.Readings[clusterview.FamilyReservations].At
	if read.IsZero() {
		return
	}
	active, planned := 0, 0
	for _, r := range v.Reservations {
		switch {
		case r.Start.Time().After(read):
			planned += amount(r)
		case r.End.IsZero() || r.End.Time().After(read):
			active += amount(r)
		}
	}
	add(float64(active), "active")
	add(float64(planned), "planned")
}

// ofRPCs gives series to the types with the most requests, and the rest together.
func ofRPCs(v *clusterview.View, each func(clusterview.RPC)) {
	if v.Scheduler == nil {
		return
	}
	types, counts := map[string]clusterview.RPC{}, map[string]int{}
	for _, r := range v.Scheduler.RPCs {
		name := exposition.Name(r.Name)
		types[name] = clusterview.RPC{Name: name, Count: types[name].Count + r.Count, Sum: types[name].Sum + r.Sum}
		counts[name] = int(types[name].Count)
	}
	kept, rest := largest(counts, mostRPCs), clusterview.RPC{}
	slices.Sort(kept)
	for _, name := range kept {
		each(types[name])
		delete(types, name)
	}
	for _, r := range types {
		rest = clusterview.RPC{Name: otherLabel, Count: rest.Count + r.Count, Sum: rest.Sum + r.Sum}
	}
	if rest.Name != "" {
		each(rest)
	}
}

// labelledShares are the associations with the most usage. The others are not added up, because a
// factor has no sum.
func labelledShares(shares []clusterview.Share, most int) (all []labelled[clusterview.Share]) {
	order := make([]int, len(shares))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(shares[b].RawUsage, shares[a].RawUsage) })
	kept := order[:min(len(order), most)]
	slices.Sort(kept)
	for _, i := range kept {
		s := &shares[i]
		all = append(all, labelled[clusterview.Share]{exposition.Labels("account,user", s.Account, s.User), s})
	}
	return all
}
