package main

import (
	"errors"
	"testing"
	"time"
)

// phase is one step of a story: something is done, then something becomes true.
type phase struct {
	name string
	do   []act
	want []condition
}

type (
	act       func(*container)
	condition func(*container) error
)

// limit is for a busy machine; nothing is meant to need it.
const limit = 2 * time.Minute

// play starts a container and goes through the phases.
func play(t *testing.T, g given, phases ...phase) {
	t.Helper()
	c := start(t, g)
	for _, p := range phases {
		for _, do := range p.do {
			do(c)
		}
		c.await(p)
	}
}

// await waits until everything holds at once.
func (c *container) await(p phase) {
	c.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		ended := c.ended() // and then waiting is vain
		err := c.check(p.want)
		if err == nil {
			return
		}
		if ended || time.Now().After(deadline) {
			c.t.Fatalf("%s:\n%v", p.name, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (c *container) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

func (c *container) check(want []condition) error {
	var faults []error
	for _, holds := range want {
		faults = append(faults, holds(c))
	}
	return errors.Join(faults...)
}
