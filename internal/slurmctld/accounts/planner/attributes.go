package planner

import "strings"

// form is how the value of an attribute is written.
type form int

const (
	number form = iota
	share       // a number, or parent
	fraction
	minutes // a time as in MaxWall
	seconds
	tres // cpu=4,gres/gpu=2
	list
	text
	word // one of Attribute.words
	flags
)

// Attribute is one of an entity's that sacctmgr can set.
type Attribute struct {
	// Name is sacctmgr's for "set", and Column that of "format=".
	Name, Column string
	form         form
	// unset is the value that takes the attribute away, and byDefault what sacctmgr shows of it then. Without may, the
	// attribute stays when it leaves the file.
	unset, byDefault string
	stays            bool
	words            []string
	// also are further names that sacctmgr takes.
	also []string
}

// limits are those of an account's association and of a user's.
var limits = []Attribute{
	{Name: "Fairshare", Column: "Share", form: share, unset: "1", byDefault: "1"},
	{Name: "Priority", Column: "Priority", form: number},
	{Name: "GrpJobs", Column: "GrpJobs", form: number},
	{Name: "GrpJobsAccrue", Column: "GrpJobsAccrue", form: number},
	{Name: "GrpSubmitJobs", Column: "GrpSubmitJobs", form: number, also: []string{"GrpSubmit", "GrpSubmitJob"}},
	{Name: "GrpTRES", Column: "GrpTRES", form: tres},
	{Name: "GrpTRESMins", Column: "GrpTRESMins", form: tres},
	{Name: "GrpTRESRunMins", Column: "GrpTRESRunMins", form: tres},
	{Name: "GrpWall", Column: "GrpWall", form: minutes},
	{Name: "MaxJobs", Column: "MaxJobs", form: number},
	{Name: "MaxJobsAccrue", Column: "MaxJobsAccrue", form: number},
	{Name: "MaxSubmitJobs", Column: "MaxSubmitJobs", form: number, also: []string{"MaxSubmit"}},
	{Name: "MaxTRESPerJob", Column: "MaxTRES", form: tres, also: []string{"MaxTRES"}},
	{Name: "MaxTRESPerNode", Column: "MaxTRESPerNode", form: tres},
	{Name: "MaxTRESMinsPerJob", Column: "MaxTRESMins", form: tres, also: []string{"MaxTRESMins"}},
	{Name: "MaxWall", Column: "MaxWall", form: minutes, also: []string{"MaxWallDurationPerJob"}},
	{Name: "QOS", Column: "QOS", form: list, also: []string{"QosLevel"}},
	{Name: "DefaultQOS", Column: "DefaultQOS", form: list},
	{Name: "Comment", Column: "Comment", form: text},
}

// ofQOS are the attributes of a QOS.
var ofQOS = []Attribute{
	{Name: "Description", Column: "Description", form: text, stays: true},
	{Name: "Priority", Column: "Priority", form: number, unset: "0", byDefault: "0"},
	{Name: "Flags", Column: "Flags", form: flags, words: []string{
		"DenyOnLimit", "EnforceUsageThreshold", "NoReserve", "NoDecay", "OverPartQOS", "PartitionMaxNodes",
		"PartitionMinNodes", "PartitionQOS", "PartitionTimeLimit", "Relative", "RequiresReservation", "UsageFactorSafe",
	}},
	{Name: "GraceTime", Column: "GraceTime", form: seconds, unset: "0", byDefault: "0"},
	{Name: "GrpJobs", Column: "GrpJobs", form: number},
	{Name: "GrpJobsAccrue", Column: "GrpJobsAccrue", form: number},
	{Name: "GrpSubmitJobs", Column: "GrpSubmitJobs", form: number, also: []string{"GrpSubmit", "GrpSubmitJob"}},
	{Name: "GrpTRES", Column: "GrpTRES", form: tres},
	{Name: "GrpTRESMins", Column: "GrpTRESMins", form: tres},
	{Name: "GrpTRESRunMins", Column: "GrpTRESRunMins", form: tres},
	{Name: "GrpWall", Column: "GrpWall", form: minutes},
	{Name: "LimitFactor", Column: "LimitFactor", form: fraction},
	{Name: "MaxJobsPerAccount", Column: "MaxJobsPA", form: number, also: []string{"MaxJobsPA"}},
	{Name: "MaxJobsPerUser", Column: "MaxJobsPU", form: number, also: []string{"MaxJobsPU", "MaxJobs"}},
	{Name: "MaxJobsAccruePerAccount", Column: "MaxJobsAccruePA", form: number, also: []string{"MaxJobsAccruePA"}},
	{Name: "MaxJobsAccruePerUser", Column: "MaxJobsAccruePU", form: number, also: []string{"MaxJobsAccruePU"}},
	{Name: "MaxSubmitJobsPerAccount", Column: "MaxSubmitJobsPA", form: number, also: []string{"MaxSubmitPA"}},
	{Name: "MaxSubmitJobsPerUser", Column: "MaxSubmitJobsPU", form: number, also: []string{"MaxSubmitPU", "MaxSubmitJobs"}},
	{Name: "MaxTRESPerJob", Column: "MaxTRESPerJob", form: tres, also: []string{"MaxTRES"}},
	{Name: "MaxTRESPerNode", Column: "MaxTRESPerNode", form: tres},
	{Name: "MaxTRESPerUser", Column: "MaxTRESPerUser", form: tres, also: []string{"MaxTRESPU"}},
	{Name: "MaxTRESPerAccount", Column: "MaxTRESPerAccount", form: tres, also: []string{"MaxTRESPA"}},
	{Name: "MaxTRESMinsPerJob", Column: "MaxTRESMinsPerJob", form: tres, also: []string{"MaxTRESMins"}},
	{Name: "MaxTRESRunMinsPerAccount", Column: "MaxTRESRunMinsPA", form: tres, also: []string{"MaxTRESRunMinsPA"}},
	{Name: "MaxTRESRunMinsPerUser", Column: "MaxTRESRunMinsPU", form: tres, also: []string{"MaxTRESRunMinsPU"}},
	{Name: "MaxWall", Column: "MaxWall", form: minutes, also: []string{"MaxWallDurationPerJob"}},
	{Name: "MinTRESPerJob", Column: "MinTRESPerJob", form: tres, also: []string{"MinTRES"}},
	{Name: "Preempt", Column: "Preempt", form: list},
	{Name: "PreemptMode", Column: "PreemptMode", form: word, unset: "cluster", byDefault: "cluster", words: []string{
		"cluster", "cancel", "gang", "requeue", "suspend", "within",
	}},
	{Name: "PreemptExemptTime", Column: "PreemptExemptTime", form: minutes},
	{Name: "UsageFactor", Column: "UsageFactor", form: fraction, unset: "1", byDefault: "1"},
	{Name: "UsageThreshold", Column: "UsageThreshold", form: fraction},
}

// ofAccount are those of an account beside the limits.
var ofAccount = []Attribute{
	{Name: "Description", Column: "Description", form: text, stays: true},
	{Name: "Organization", Column: "Organization", form: text, stays: true},
	{Name: "Parent", Column: "ParentName", form: list, unset: "root", byDefault: "root"},
	{Name: "Coordinators", form: list, also: []string{"Coordinator"}},
}

var ofUser = []Attribute{
	{Name: "DefaultAccount", Column: "DefaultAccount", form: list, stays: true},
	{Name: "AdminLevel", Column: "AdminLevel", form: word, unset: "none", byDefault: "none", words: []string{
		"None", "Operator", "Administrator",
	}},
}

// attributes calls each with the attributes of a kind until it returns false.
func attributes(kind Kind) func(each func(*Attribute) bool) {
	return func(each func(*Attribute) bool) {
		for _, table := range tablesOf(kind) {
			for i := range table {
				if !each(&table[i]) {
					return
				}
			}
		}
	}
}

func tablesOf(kind Kind) [][]Attribute {
	switch kind {
	case QOS:
		return [][]Attribute{ofQOS}
	case Account:
		return [][]Attribute{ofAccount, limits}
	case User:
		return [][]Attribute{ofUser}
	}
	return [][]Attribute{limits}
}

// Columns are those of "sacctmgr show" for the attributes of a kind. An account's first two are of "show account", and its
// coordinators have none.
func Columns(kind Kind) (all []string) {
	for a := range attributes(kind) {
		if a.Column != "" {
			all = append(all, a.Column)
		}
	}
	return all
}

// find looks for an attribute by any of its names.
func find(kind Kind, name string) *Attribute {
	for a := range attributes(kind) {
		if strings.EqualFold(a.Name, name) {
			return a
		}
		for _, other := range a.also {
			if strings.EqualFold(other, name) {
				return a
			}
		}
	}
	return nil
}

// names are those of a kind's attributes, for a message.
func names(kind Kind) string {
	var all []string
	for a := range attributes(kind) {
		all = append(all, a.Name)
	}
	return strings.Join(all, ", ")
}

// away is what "set" gets so that the value goes.
func (a *Attribute) away(value string) string {
	switch {
	case a.unset != "":
		return a.unset
	case a.form == tres:
		var each []string
		for one := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(one, "=")
			each = append(each, name+"=-1")
		}
		return strings.Join(each, ",")
	case a.form == list && a.Name != "DefaultQOS", a.form == text:
		return ""
	}
	return "-1"
}

// Take gives an entity what sacctmgr has shown in a column, or of an attribute without one. What cannot be read stays as
// sacctmgr writes it, so that it differs from what a file can have.
func Take(e *Entity, kind Kind, column, value string) {
	for a := range attributes(kind) {
		if a.Column != column && (a.Column != "" || a.Name != column) {
			continue
		}
		if canonical, err := a.canonical(value); err == nil {
			value = canonical
		}
		if value != "" {
			e.Values[a.Name] = value
		}
	}
}
