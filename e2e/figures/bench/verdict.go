package main

import (
	"fmt"
	"io"
)

// verdict collects what is over its budget.
type verdict struct{ over []string }

// judge compares a figure with its budget.
func (v *verdict) judge(what string, figure, budget float64) string {
	if figure <= budget {
		return fmt.Sprintf("(≤ %g: ok)", budget)
	}
	v.over = append(v.over, fmt.Sprintf("%s: %.3g, the budget is %g", what, figure, budget))
	return fmt.Sprintf("(≤ %g: over)", budget)
}

func (v *verdict) print(w io.Writer) {
	if len(v.over) == 0 {
		fmt.Fprintln(w, "Everything is within its budget.")
		return
	}
	fmt.Fprintln(w, "OVER BUDGET:")
	for _, line := range v.over {
		fmt.Fprintln(w, " ", line)
	}
}
