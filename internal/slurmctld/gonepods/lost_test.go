package gonepods

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestWhyRecordsStay: what keeps the records of lost machines once no job holds the nodes.
func TestWhyRecordsStay(t *testing.T) {
	silent := errors.New("no answer")
	for name, c := range map[string]struct {
		ending     ending
		completing map[string]bool
		unanswered error
		why        error
	}{
		"no job":                               {},
		"no job, and nobody was asked":         {unanswered: silent},
		"a job that has ended":                 {ending: ending{jobs: []string{"5", "6"}}, completing: map[string]bool{"7": true}},
		"a job that is ending":                 {ending: ending{jobs: []string{"5", "6"}}, completing: map[string]bool{"6": true}, why: errEnding},
		"a job, and no answer":                 {ending: ending{jobs: []string{"5"}}, unanswered: silent, why: silent},
		"jobs that nobody named":               {ending: ending{unknown: time.Now().Add(time.Minute)}, why: errUnnamed},
		"jobs that nobody named, and too long": {ending: ending{unknown: time.Now().Add(-time.Second)}},
	} {
		assert.Equal(t, c.why, c.ending.why(c.completing, c.unanswered), name)
	}
}
