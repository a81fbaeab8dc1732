//go:build e2e

package elastic

import (
	"fmt"
	"slices"
	"strings"
)

const recordsConf = `SlurmctldParameters=enable_configless
SuspendTimeout=10
NodeName=s-0 CPUs=1 RealMemory=300 NodeAddr=` + "10.88.9.9" + `
NodeSet=c Feature=c
PartitionName=c Nodes=c SuspendTime=3
`

// setC is a set of four nodes, but for changes.
func setC(changes ...string) string {
	text := `{"nodes":"c-[0-3]","min":0,"cpuLimit":"1","memoryLimit":"364Mi","storageLimit":"1Gi","features":["c","of-a-set"],"weight":"7"}`
	return strings.NewReplacer(changes...).Replace(text)
}

var recordsSets = map[string]string{"c": setC()}

var recordsSteps = []step{
	{"records are made", (*world).recordsAreMade},
	{"a set grows and shrinks", (*world).setGrows},
	{"a bad file changes nothing", (*world).badFile},
	{"names that somebody else has", (*world).collision},
	{"nodes of another shape", (*world).shape},
	{"nodes that stay up", (*world).minimum},
	{"a set that is removed", (*world).removed},
}

var allOfC = []string{"c-0", "c-1", "c-2", "c-3"}

// untilRecords waits until there are records of these names alone.
func (w *world) untilRecords(names ...string) error {
	var last []string
	err := w.until("there are other records than "+strings.Join(names, " "), func() bool {
		nodes, err := w.nodes()
		if err != nil {
			return false
		}
		last = last[:0]
		for name := range nodes {
			last = append(last, name)
		}
		slices.Sort(last)
		return slices.Equal(last, names)
	})
	if err != nil {
		err = fmt.Errorf("%w: %v", err, last)
	}
	return err
}

func (w *world) recordsAreMade() error {
	if err := w.untilRecords(append(slices.Clone(allOfC), "s-0")...); err != nil {
		return err
	}
	return w.untilNodes("a record is not as its set", func(r record) bool {
		return off(r) && r.is("CLOUD") && r.CPUs == 1 && r.Memory == 300 && r.Disk == 1024 && r.Weight == 7 && slices.Equal(r.Has, []string{"c", "of-a-set"})
	}, allOfC...)
}

func (w *world) setGrows() error {
	if err := w.edit(map[string]string{"c": setC("c-[0-3]", "c-[0-5]")}); err != nil {
		return err
	}
	if err := w.untilRecords("c-0", "c-1", "c-2", "c-3", "c-4", "c-5", "s-0"); err != nil {
		return err
	}
	if err := w.untilNodes("a new record is not idle~", off, "c-4", "c-5"); err != nil {
		return err
	}
	if err := w.edit(map[string]string{"c": setC()}); err != nil {
		return err
	}
	return w.untilRecords(append(slices.Clone(allOfC), "s-0")...)
}

// said waits until slurmctld's agent has logged a line with all of these texts.
func (w *world) said(texts ...string) error {
	return w.until(fmt.Sprintf("the agent does not say %q", texts), func() bool {
		w.lock.Lock()
		defer w.lock.Unlock()
		return slices.ContainsFunc(w.log, func(line string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
		})
	})
}

func (w *world) badFile() error {
	if err := w.edit(map[string]string{"c": setC(`"4"`, `"4"`, `"memoryLimit":"364Mi"`, `"memoryLimit":"a lot"`)}); err != nil {
		return err
	}
	if err := w.said("c.json", "memoryLimit", "a lot"); err != nil {
		return err
	}
	nodes, err := w.nodes()
	if err != nil {
		return err
	}
	if len(nodes) != 5 || nodes["c-0"].Memory != 300 {
		return fmt.Errorf("the bad file has changed the records: %v", nodes)
	}
	return nil
}

func (w *world) collision() error {
	if err := w.edit(map[string]string{"c": setC(), "d": setC("c-[0-3]", "c-[3-4]", `"c"`, `"d"`)}); err != nil {
		return err
	}
	if err := w.said("d.json", "c-3"); err != nil {
		return err
	}
	if err := w.edit(map[string]string{"c": setC(), "e": setC("c-[0-3]", "s-[0-1]", `"c"`, `"e"`)}); err != nil {
		return err
	}
	if err := w.said("s-0"); err != nil {
		return err
	}
	return w.untilRecords(append(slices.Clone(allOfC), "s-0", "s-1")...)
}

// shape: a node that is up has its shape until its pod has ended.
func (w *world) shape() error {
	id, err := w.batch("-p", "c", "-w", "c-2")
	if err != nil {
		return err
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	if err := w.edit(map[string]string{"c": setC("364Mi", "428Mi", `"7"`, `"8"`)}); err != nil {
		return err
	}
	changed := func(r record) bool { return off(r) && r.Memory == 364 && r.Weight == 8 }
	if err := w.untilNodes("a record has not changed", changed, "c-0", "c-1", "c-3"); err != nil {
		return err
	}
	if nodes, err := w.nodes(); err != nil || nodes["c-2"].Memory != 300 || w.job(id) != "RUNNING" {
		return fmt.Errorf("c-2 is %v, and its job %s: %w", nodes["c-2"], w.job(id), err)
	}
	if _, err := w.slurm("scancel", id); err != nil {
		return err
	}
	if err := w.untilNodes("a record has not changed after its pod's end", changed, allOfC...); err != nil {
		return err
	}
	return w.untilPods()
}

func (w *world) minimum() error {
	memory := []string{"364Mi", "364Mi", `"min":0`, `"min":2`}
	if err := w.edit(map[string]string{"c": setC(memory...)}); err != nil {
		return err
	}
	if err := w.untilPods("c-0", "c-1"); err != nil {
		return err
	}
	if err := w.untilNodes("a node of the minimum does not come up", up, "c-0", "c-1"); err != nil {
		return err
	}
	if err := w.pods.lose("c-1"); err != nil {
		return err
	}
	if err := w.untilNodes("a node of the minimum does not come back", up, "c-0", "c-1"); err != nil {
		return err
	}
	if err := w.edit(map[string]string{"c": setC()}); err != nil {
		return err
	}
	if err := w.untilPods(); err != nil {
		return err
	}
	return w.untilNodes("a node is not idle~", off, allOfC...)
}

func (w *world) removed() error {
	id, err := w.batch("-p", "c", "-w", "c-1")
	if err != nil {
		return err
	}
	if err := w.untilJob(id, "RUNNING"); err != nil {
		return err
	}
	if err := w.edit(map[string]string{}); err != nil {
		return err
	}
	if err := w.untilRecords("c-1", "s-0"); err != nil {
		return err
	}
	if state := w.job(id); state != "RUNNING" {
		return fmt.Errorf("job %s is %s", id, state)
	}
	if _, err := w.slurm("scancel", id); err != nil {
		return err
	}
	if err := w.untilRecords("s-0"); err != nil {
		return err
	}
	return w.untilPods()
}
