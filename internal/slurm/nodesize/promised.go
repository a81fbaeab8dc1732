package nodesize

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm/gres"
)

// Promise is what the template of a pod says about the node that will be made of the pod. Limits are
// Kubernetes' quantities, as in 1500m and 16Gi.
type Promise struct {
	CPU, Memory, Storage string
	// Reserve is the memory that jobs do not get; empty: DefaultReserve.
	Reserve string
	// Gres is name[:type][:count], several separated by commas; empty for none.
	Gres string
	// Features, Topology and Weight are what a pod's labels and annotations say.
	Features         []string
	Topology, Weight string
}

// DefaultReserve is the memory that jobs do not get unless somebody says otherwise.
const DefaultReserve = "64Mi"

// PromiseFault is a limit that cannot be used.
type PromiseFault struct {
	// Field is the Promise's.
	Field, Value string
	Err          error
}

func (f *PromiseFault) Error() string {
	return fmt.Sprintf("%s: cannot use %q: %v", f.Field, f.Value, f.Err)
}
func (f *PromiseFault) Unwrap() error { return f.Err }

// page is the kernel's unit of memory.max.
const page = 4 << 10

// Promised is the node that a pod's agent will measure in a pod with these limits, where the machine has
// more CPUs than the pod, and no fewer bytes. The error holds every PromiseFault.
func Promised(p Promise) (Size, Traits, error) {
	var faults []error
	fault := func(field, value string, err error) {
		if err != nil {
			faults = append(faults, &PromiseFault{field, value, err})
		}
	}
	quantity := func(field, value string, parts, least int64, wanted string) int64 {
		n, err := ParseQuantity(value, parts)
		if value == "" || err == nil && n < least {
			err = errors.New("a node needs " + wanted)
		}
		fault(field, value, err)
		return n
	}
	millicores, memory := quantity("CPU", p.CPU, 1000, 1, "a limit, such as 4 or 1500m"),
		quantity("Memory", p.Memory, 1, 1, "a limit, such as 16Gi")
	storage, reserve := quantity("Storage", cmp.Or(p.Storage, "0"), 1, 0, ""),
		quantity("Reserve", cmp.Or(p.Reserve, DefaultReserve), 1, 0, "")
	var wanted gres.List
	if p.Gres != "" {
		var err error
		wanted, err = gres.Parse(p.Gres)
		fault("Gres", p.Gres, err)
	}
	var t Traits
	trait := func(to *Trait, field, value string, parse func(string) (string, error)) {
		if value == "" {
			return
		}
		parsed, err := parse(value)
		fault(field, value, err)
		*to = Trait{parsed, "the template"}
	}
	trait(&t.Features, "Features", strings.Join(p.Features, ","), parseFeatures)
	trait(&t.Topology, "Topology", p.Topology, parseTopology)
	trait(&t.Weight, "Weight", p.Weight, parseWeight)
	if len(faults) > 0 {
		return Size{}, Traits{}, errors.Join(faults...)
	}
	r := Resources{MemTotal: math.MaxInt64}
	r.Quota = cgroup.Bound[float64]{Value: float64(millicores) / 1000, Source: "CPU"}
	r.Memory = cgroup.Bound[int64]{Value: memory / page * page, Source: "Memory"}
	r.Disk = cgroup.Bound[int64]{Value: storage, Source: "Storage"}
	var machine []int
	for i := range int(r.Quota.Value) + 2 {
		machine = append(machine, i)
	}
	r.Online = cgroup.SetOf(machine...)
	s, err := NewSize(r, reserve)
	if err != nil {
		return Size{}, Traits{},
			&PromiseFault{
				"Memory", p.Memory,
				fmt.Errorf("%d bytes leave no memory for jobs beside the %d bytes for the agent and slurmd", memory, reserve),
			}
	}
	s.Gres = wanted.String()
	return s, t, nil
}

// mostCPUs is what Slurm counts of a node (uint16_t).
const mostCPUs = 1<<16 - 1

// ParseQuantity reads a quantity as Kubernetes writes it, in parts of a unit: 1000 for thousandths. What is
// left over counts as a whole part, as in the downward API.
func ParseQuantity(text string, parts int64) (int64, error) {
	number, factor := text, big.NewRat(1, 1)
	for _, s := range suffixes {
		if n, found := strings.CutSuffix(text, s.text); found {
			number, factor = n, s.factor
			break
		}
	}
	digits := strings.Trim(number, "0123456789.")
	exponent := strings.ContainsAny(number, "eE") && strings.Trim(number, "0123456789.eE+-") == "" && len(number) < 20
	value, is := new(big.Rat).SetString(number)
	if !is || digits != "" && !exponent || strings.HasPrefix(number, "-") || strings.HasPrefix(number, ".") {
		return 0, errQuantity
	}
	value.Mul(value, factor).Mul(value, new(big.Rat).SetInt64(parts))
	whole, rest := new(big.Int).QuoRem(value.Num(), value.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() || parts > 1 && whole.Int64() > mostCPUs*parts {
		return 0, errors.New("that is more than a node can have")
	}
	return whole.Int64(), nil
}

var errQuantity = errors.New("want a quantity of Kubernetes, such as 4, 1500m, 16Gi or 200G")

// suffixes are Kubernetes', the longer ones first.
var suffixes = func() (all []struct {
	text   string
	factor *big.Rat
},
) {
	add := func(text string, factor *big.Rat) {
		all = append(all, struct {
			text   string
			factor *big.Rat
		}{text, factor})
	}
	for i, s := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		add(s, new(big.Rat).SetInt64(1<<(10*(i+1))))
	}
	power := big.NewRat(1, 1)
	for _, s := range []string{"k", "M", "G", "T", "P", "E"} {
		power = new(big.Rat).Mul(power, big.NewRat(1000, 1))
		add(s, power)
	}
	add("m", big.NewRat(1, 1000))
	add("u", big.NewRat(1, 1_000_000))
	add("n", big.NewRat(1, 1_000_000_000))
	return all
}()
