package cgroup

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// maxCPU bounds a list before anything is allocated: the kernel's largest
// CONFIG_NR_CPUS is 8192.
const maxCPU = 8191

// Set is a set of CPU numbers, written as the kernel and Slurm write it:
// "0-2,5" (cpuset(7), list format).
type Set struct{ words [(maxCPU + 64) / 64]uint64 }

// ParseSet reads the list format. The empty text is the empty set.
func ParseSet(text string) (Set, error) {
	var s Set
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		low, err := parseCPU(first)
		if err != nil {
			return Set{}, err
		}
		high := low
		if ranged {
			if high, err = parseCPU(last); err != nil {
				return Set{}, err
			}
		}
		if high < low {
			return Set{}, fmt.Errorf("range %q runs backwards", part)
		}
		for cpu := low; cpu <= high; cpu++ {
			s.add(cpu)
		}
	}
	return s, nil
}

func parseCPU(text string) (int, error) {
	cpu, err := strconv.ParseUint(text, 10, 16)
	if err != nil || cpu > maxCPU {
		return 0, errors.New("want CPU numbers from 0 to 8191 and ranges of them, as in 0-2,5")
	}
	return int(cpu), nil
}

// Len is the number of CPUs in the set.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Has says whether the set holds cpu.
func (s Set) Has(cpu int) bool {
	return cpu >= 0 && cpu <= maxCPU && s.words[cpu/64]&(1<<(cpu%64)) != 0
}

// Intersect is the CPUs of both sets.
func (s Set) Intersect(other Set) Set {
	for i := range s.words {
		s.words[i] &= other.words[i]
	}
	return s
}

// Without is the CPUs of s that are not in other.
func (s Set) Without(other Set) Set {
	for i := range s.words {
		s.words[i] &^= other.words[i]
	}
	return s
}

func (s Set) String() string {
	var parts []string
	for cpu := 0; cpu <= maxCPU; cpu++ {
		if !s.Has(cpu) {
			continue
		}
		first := cpu
		for s.Has(cpu + 1) {
			cpu++
		}
		if first == cpu {
			parts = append(parts, strconv.Itoa(cpu))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", first, cpu))
		}
	}
	return strings.Join(parts, ",")
}

// MarshalText writes the list format, so a Set is readable in JSON.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the list format.
func (s *Set) UnmarshalText(text []byte) error {
	set, err := ParseSet(string(text))
	*s = set
	return err
}

// SetOf is the set of some CPUs; numbers that no CPU has are left out.
func SetOf(numbers ...int) Set {
	var s Set
	for _, cpu := range numbers {
		if cpu >= 0 && cpu <= maxCPU {
			s.add(cpu)
		}
	}
	return s
}

func (s *Set) add(cpu int) { s.words[cpu/64] |= 1 << (cpu % 64) }

// List is the set's CPUs in their order.
func (s Set) List() []int {
	var numbers []int
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			numbers = append(numbers, i*64+bits.TrailingZeros64(w))
		}
	}
	return numbers
}

// first is the set's lowest CPU, -1 of an empty set.
func (s Set) first() int {
	for i, w := range s.words {
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return -1
}
