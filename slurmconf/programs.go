package slurmconf

import "strings"

// programs are the keys of slurm.conf whose values are programs that Slurm runs,
// and on which hosts it does.
var programs = []struct {
	key string
	on  Runner
}{
	{"Prolog", OnNodes},
	{"Epilog", OnNodes},
	{"TaskProlog", OnNodes},
	{"TaskEpilog", OnNodes},
	{"HealthCheckProgram", OnNodes},
	{"RebootProgram", OnNodes},
	{"UnkillableStepProgram", OnNodes},
	{"PrologSlurmctld", OnSlurmctld},
	{"EpilogSlurmctld", OnSlurmctld},
	{"ResumeProgram", OnSlurmctld},
	{"ResumeFailProgram", OnSlurmctld},
	{"SuspendProgram", OnSlurmctld},
	{"MailProg", OnSlurmctld},
	{"ResvProlog", OnSlurmctld},
	{"ResvEpilog", OnSlurmctld},
	{"SlurmctldPrimaryOnProg", OnSlurmctld},
	{"SlurmctldPrimaryOffProg", OnSlurmctld},
	{"SrunProlog", OnSubmission},
	{"SrunEpilog", OnSubmission},
}

// Runner is where a program of slurm.conf runs.
type Runner string

// Where programs run: beside slurmd, beside slurmctld, beside srun.
const (
	OnNodes      Runner = "slurmd"
	OnSlurmctld  Runner = "slurmctld"
	OnSubmission Runner = "srun"
)

// Program is a program that Slurm runs. A relative Path is a file beside slurm.conf,
// which a configless cluster ships (Prolog, Epilog, TaskProlog, TaskEpilog).
type Program struct {
	Pair
	Path string
	On   Runner
}

// Programs are the programs that slurm.conf names. Prolog and the like can be
// patterns (glob(7)).
func (c *Conf) Programs() []Program {
	var all []Program
	for _, p := range programs {
		for _, pair := range c.All(p.key) {
			all = append(all, Program{pair, pair.Value, p.on})
		}
	}
	return all
}

// Plugin is a line of plugstack.conf(8): a SPANK plugin.
type Plugin struct {
	Pair
	Required  bool
	Path      string
	Arguments []string
}

// Plugins are the SPANK plugins of plugstack.conf, in order.
func (c *Conf) Plugins() []Plugin {
	var all []Plugin
	for l := range c.Lines() {
		words := strings.Fields(l.Pairs[0].Value)
		if l.of.Kind == PlugstackConf && len(words) > 0 {
			all = append(all, Plugin{l.Pairs[0], l.Pairs[0].Key == "required", words[0], words[1:]})
		}
	}
	return all
}
