package slurm

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

// Limit is what a QOS or an association bounds, and what the jobs have of it.
type Limit struct {
	// Entity is qos, account or user, as sacctmgr calls them, and Name is its name.
	Entity string `json:"entity"`
	Name   string `json:"name"`
	// Account, Cluster and Partition are of an association. Partition is mostly empty.
	Account   string `json:"account,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	Partition string `json:"partition,omitempty"`
	// Key is scontrol's word, as in GrpTRES or MaxJobsPU. TRES is empty for a limit of jobs or of time.
	Key  string `json:"key"`
	TRES string `json:"tres,omitempty"`
	Most int64  `json:"most"`
	// Used is -1 where slurmctld does not count it.
	Used int64 `json:"used"`
}

// mostAncestors bounds the accounts above a job's that are asked about.
const mostAncestors = 8

// Limits asks what slurmctld knows of the limits behind a job's reason: of its QOS and those of its partitions, or of its
// user, its account and the accounts above.
func Limits(ctx context.Context, a Asker, j *Job, partitions []Partition) (all []Limit, err error) {
	if strings.HasPrefix(j.Reason, "QOS") {
		names := []string{j.QOS}
		for i := range partitions {
			names = append(names, partitions[i].QOS.Assigned)
		}
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
		out, err := a.Ask(ctx, "scontrol", "show", "assoc_mgr", "flags=qos", "qos="+strings.Join(names, ","))
		return parseLimits(out, j), err
	}
	for account, n := j.Account, 0; account != "" && n < mostAncestors; n++ {
		out, err := a.Ask(ctx, "scontrol", "show", "assoc_mgr", "flags=assoc", "accounts="+account)
		if err != nil {
			return all, err
		}
		all = append(all, parseLimits(out, j)...)
		account = parentOf(out, account)
	}
	return all, nil
}

// parentOf is the account above, empty for the root of the tree.
func parentOf(out, account string) string {
	for pair := range strings.FieldsSeq(out) {
		if parent, is := strings.CutPrefix(pair, "ParentAccount="); is {
			if parent, _, _ = strings.Cut(parent, "("); parent != "" && parent != account {
				return parent
			}
		}
	}
	return ""
}

// parseLimits are the limits in the records of assoc_mgr that concern a job. One that is not set is N or empty.
func parseLimits(out string, j *Job) (all []Limit) {
	var whose Limit
	concerns := false
	for line := range strings.Lines(out) {
		text := strings.TrimSpace(line)
		switch name, is := strings.CutPrefix(text, "QOS="); {
		case is:
			name, _, _ = strings.Cut(name, "(")
			whose, concerns = Limit{Entity: "qos", Name: name}, true
			continue
		case strings.HasPrefix(text, "ClusterName="):
			whose, concerns = association(text, j)
			continue
		case text == "Account Limits" || text == "User Limits":
			concerns = false
			continue
		case whose.Entity == "qos" && text != "" && !strings.Contains(text, "="):
			name, _, _ := strings.Cut(text, "(")
			concerns = slices.Contains([]string{j.User, j.Account, strconv.FormatInt(j.UserID, 10)}, name)
			continue
		}
		if concerns {
			all = append(all, limitsOf(whose, text)...)
		}
	}
	return all
}

// association reads the first line of an association's record, and says whether a job's limits are there.
func association(line string, j *Job) (whose Limit, concerns bool) {
	words := map[string]string{}
	for pair := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(pair, "=")
		words[key] = value
	}
	user, _, _ := strings.Cut(words["UserName"], "(")
	whose = Limit{Entity: "account", Name: words["Account"], Cluster: words["ClusterName"], Partition: words["Partition"]}
	if user != "" {
		whose.Entity, whose.Name, whose.Account = "user", user, words["Account"]
	}
	return whose, (user == "" || user == j.User) && (whose.Partition == "" || slices.Contains(j.InPartitions(), whose.Partition))
}

// limitsOf are those that a line of a record sets: MaxJobs=1(1) MaxSubmitJobs= GrpTRES=cpu=4(2),mem=N(0).
func limitsOf(whose Limit, line string) (all []Limit) {
	for pair := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(key, "Grp") && !strings.HasPrefix(key, "Max") {
			continue
		}
		for one := range strings.SplitSeq(value, ",") {
			tres, number, is := strings.Cut(one, "=")
			if !is {
				tres, number = "", one
			}
			most, used, counted := strings.Cut(strings.TrimSuffix(number, ")"), "(")
			n, err := strconv.ParseInt(most, 10, 64)
			if err != nil {
				continue // it is N, or empty
			}
			limit := whose
			limit.Key, limit.TRES, limit.Most, limit.Used = key, tres, n, -1
			if has, err := strconv.ParseFloat(used, 64); counted && err == nil {
				limit.Used = int64(has)
			}
			all = append(all, limit)
		}
	}
	return all
}

// Whose names what sets the limit, for people.
func (l *Limit) Whose() string {
	switch l.Entity {
	case "qos":
		return "the QOS " + l.Name
	case "user":
		return l.Name + " in the account " + l.Account
	}
	return "the account " + l.Name
}

// Where are the words by which sacctmgr finds what sets the limit.
func (l *Limit) Where() []string {
	words := []string{l.Entity, "where", "name=" + l.Name}
	for _, one := range []struct{ key, value string }{{"account", l.Account}, {"cluster", l.Cluster}, {"partition", l.Partition}} {
		if one.value != "" {
			words = append(words, one.key+"="+one.value)
		}
	}
	return words
}

// What is the limit as sacctmgr takes it, without a value: MaxJobs, GrpTRES=cpu.
func (l *Limit) What() string {
	what := cmp.Or(map[string]string{"MaxWallPJ": "MaxWall", "MaxSubmitJobsPU": "MaxSubmitJobsPerUser", "MaxSubmitJobsPA": "MaxSubmitJobsPerAccount"}[l.Key], l.Key)
	for short, long := range map[string]string{"PU": "PerUser", "PA": "PerAccount", "PN": "PerNode", "PJ": "PerJob"} {
		if base, is := strings.CutSuffix(what, short); is {
			what = base + long
		}
	}
	if l.TRES != "" {
		what += "=" + l.TRES
	}
	return what
}
