package slurm

import (
	"fmt"
	"testing"
)

// BenchmarkNamed: 125 nodes end together, 10,000 jobs name or hold a node each, and a reservation has all of 10,000.
func BenchmarkNamed(b *testing.B) {
	claims := []Claim{{Reservation: "r", Nodes: "n[0-9999]"}}
	for i := range 10_000 {
		node := fmt.Sprintf("n%d", i)
		claims = append(claims, Claim{Job: fmt.Sprint(i), Nodes: node, Holds: node})
	}
	var ending []string
	for i := range 125 {
		ending = append(ending, fmt.Sprintf("n%d", i))
	}
	for b.Loop() {
		named, err := Named(claims, ending)
		if err != nil || len(named) != 125 {
			b.Fatal(named, err)
		}
		if held, err := Held(claims, ending); err != nil || len(held) != 125 {
			b.Fatal(held, err)
		}
	}
}
