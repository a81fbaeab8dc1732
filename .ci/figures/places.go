package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// place is where a reader finds what was counted.
type place struct {
	at   string // a file, a file and a line, or a package
	text string
	more []string // lines below it
}

// printPlaces prints a line for each place, with paths that begin in the working directory.
func printPlaces(out io.Writer, all []place) error {
	text := &strings.Builder{}
	for _, p := range all {
		fmt.Fprintf(text, "%s: %s\n", short(p.at), p.text)
		for _, line := range p.more {
			fmt.Fprintf(text, "\t%s\n", line)
		}
	}
	_, err := io.WriteString(out, "\n"+text.String())
	return err
}

// printSample prints n of the doc comments. The same seed draws the same ones of the same tree.
func printSample(out io.Writer, docs []place, n int, seed uint64) error {
	docs = slices.Clone(docs)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	return printPlaces(out, docs[:min(n, len(docs))])
}

func short(name string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, name); err == nil && filepath.IsAbs(name) {
			return rel
		}
	}
	return name
}
