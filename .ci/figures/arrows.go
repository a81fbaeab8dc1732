package main

import (
	"go/token"
	"go/types"
	"maps"
	"slices"
)

// graph has for each file the files that it uses, and for each of these the names, in order.
type graph map[string]map[string][]string

// arrows finds which declarations of other files each file uses.
func arrows(set *token.FileSet, pkg *types.Package, info *types.Info) graph {
	uses := graph{}
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() || !declared(pkg, object) {
			continue
		}
		from, to := set.Position(ident.Pos()).Filename, set.Position(object.Pos()).Filename
		if from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string][]string{}
		}
		if at, found := slices.BinarySearch(uses[from][to], object.Name()); !found {
			uses[from][to] = slices.Insert(uses[from][to], at, object.Name())
		}
	}
	return uses
}

// declared says whether an object is the package's, and not one inside of a function.
func declared(pkg *types.Package, object types.Object) bool {
	if object.Parent() == pkg.Scope() {
		return true
	}
	switch object := object.(type) {
	case *types.Var:
		return object.IsField()
	case *types.Func:
		return true // a method
	}
	return false
}

// back is how many arrows run up when the files are in a good order: first a greedy
// one (Eades, Lin and Smyth), then each file moves to where it costs least.
func back(uses graph) int {
	nodes := map[string]bool{}
	for from, tos := range uses {
		nodes[from] = true
		for to := range tos {
			nodes[to] = true
		}
	}
	order := slices.Sorted(maps.Keys(nodes))
	slices.SortStableFunc(order, func(a, b string) int { return balance(uses, order, b) - balance(uses, order, a) })
	for best := count(uses, order); ; {
		for _, node := range slices.Clone(order) {
			rest := slices.DeleteFunc(slices.Clone(order), func(n string) bool { return n == node })
			at, cost, least := 0, 0, 0
			for i, other := range rest { // the cost of being behind other, against being before it
				if uses.has(node, other) {
					cost++
				}
				if uses.has(other, node) {
					cost--
				}
				if cost < least {
					at, least = i+1, cost
				}
			}
			order = slices.Insert(rest, at, node)
		}
		now := count(uses, order)
		if now >= best {
			return best
		}
		best = now
	}
}

func (g graph) has(from, to string) bool {
	return len(g[from][to]) > 0
}

// balance is how many files a file uses, less how many use it.
func balance(uses graph, all []string, node string) int {
	n := len(uses[node])
	for _, other := range all {
		if uses.has(other, node) {
			n--
		}
	}
	return n
}

func count(uses graph, order []string) int {
	n := 0
	for i, later := range order {
		for _, earlier := range order[:i] {
			if uses.has(later, earlier) {
				n++
			}
		}
	}
	return n
}
