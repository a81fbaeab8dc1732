package clusterview

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// nodeTail are the fields of a node that have texts for people, and those that follow them.
var nodeTail = []string{
	"Reason", "Comment", "Extra", "InstanceId", "InstanceType", "ReservationName", "TLSCertTokenSet",
	"TLSCertLastRenewal", "Topology", "Parameters",
}

// readNodes reads the answer of "scontrol --detail --oneliner show nodes". With --json scontrol takes
// 42 kB of memory for each node, and without hardly any.
func readNodes(from io.Reader) (nodes []slurm.Node, err error) {
	t := newTexts()
	err = eachRecord(from, "NodeName", "No nodes in the system", nodeTail, func(r *record) error {
		nodes = append(nodes, nodeOf(r, t))
		return nil
	})
	return slices.Clip(nodes), err
}

func nodeOf(r *record, t *texts) slurm.Node {
	state := slurm.ParseState(r.must("State"))
	if state.Base() == "" {
		r.fault("there is no known state in %q", r.fields["State"])
	}
	memory, reserved := r.readNumber("RealMemory"), int64(0)
	if _, is := r.fields["MemSpecLimit"]; is {
		reserved = r.readNumber("MemSpecLimit")
	}
	n := slurm.Node{
		Name: strings.Clone(r.name), State: t.keepAll(state),
		Partitions: t.list(known(r.fields["Partitions"])), Features: t.list(r.word("AvailableFeatures")),
		ActiveFeatures: t.list(r.word("ActiveFeatures")),
		CPUs:           int(r.readNumber("CPUTot")), CPUsEffective: int(r.readNumber("CPUEfctv")), CPUsAlloc: int(r.readNumber("CPUAlloc")),
		RealMemory: memory, MemoryEffective: memory - reserved, MemoryAlloc: r.readNumber("AllocMem"), MemoryFree: -1,
		TmpDisk: r.readNumber("TmpDisk"), Gres: t.text(r.word("Gres")),
		GPUs: r.gpus(r.word("Gres")), GPUsAlloc: r.gpus(known(r.fields["GresUsed"])),
		BootAt: r.time("BootTime"), SlurmdStartAt: r.time("SlurmdStartTime"), LastBusyAt: r.time("LastBusyTime"),
		Weight: int(r.readNumber("Weight")), Extra: t.text(known(r.fields["Extra"])), Comment: t.text(known(r.fields["Comment"])),
		Topology: t.text(known(r.fields["Topology"])), Version: t.text(known(r.fields["Version"])),
	}
	if r.must("FreeMem") != none {
		n.MemoryFree = r.readNumber("FreeMem")
	}
	n.Reason, n.ReasonUser, n.ReasonAt = splitReason(r.fields["Reason"])
	n.Reason, n.ReasonUser = t.text(n.Reason), t.text(n.ReasonUser)
	return n
}

// splitReason takes user and time off a reason: "broken [root@1795393122]".
func splitReason(text string) (reason, user string, at slurm.Time) {
	open := strings.LastIndex(text, " [")
	if open < 0 || !strings.HasSuffix(text, "]") {
		return text, "", 0
	}
	user, when, _ := strings.Cut(text[open+2:len(text)-1], "@")
	seconds, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return text, "", 0
	}
	return text[:open], user, slurm.Time(seconds)
}

func (r *record) gpus(gres string) int {
	count, err := gpus(gres)
	if err != nil {
		r.fault("%w", err)
	}
	return count
}

// gpus counts the GPUs in a list of gres: "gpu:a100:4(S:0-1),gpu:2,shard:8". GresUsed has
// "gpu:a100:2(IDX:0-1)".
func gpus(gres string) (count int, err error) {
	for _, one := range splitGres(gres) {
		name, rest, _ := strings.Cut(one, ":")
		if name != "gpu" {
			continue
		}
		n := 1 // "gpu" alone
		if rest != "" {
			if n, err = gresCount(rest); err != nil {
				return 0, fmt.Errorf("cannot read the gres %q: %w", one, err)
			}
		}
		count += n
	}
	return count, nil
}

// splitGres splits at the commas outside of parentheses, and leaves the parentheses out.
func splitGres(gres string) (all []string) {
	depth, one := 0, strings.Builder{}
	for _, r := range gres {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth > 0:
		case r == ',':
			all = append(all, one.String())
			one.Reset()
		default:
			one.WriteRune(r)
		}
	}
	if one.Len() > 0 {
		all = append(all, one.String())
	}
	return all
}

// gresCount reads "4", "a100:4", "a100:2K" or "a100", which is one. A type may begin with a digit
// ("1g.10gb").
func gresCount(text string) (int, error) {
	count := text[strings.LastIndexByte(text, ':')+1:]
	if count == "" {
		return 0, errors.New("there is no count in it")
	}
	digits, unit := count, 1
	if i := strings.IndexByte("KMG", count[len(count)-1]&^0x20); i >= 0 { // in small letters as well
		digits, unit = count[:len(count)-1], 1<<(10*(i+1))
	}
	n, err := strconv.Atoi(digits)
	if err != nil && count == text {
		return 1, nil
	}
	return n * unit, err
}
