package parts

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestALongStepIsToldEveryFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		s := watch(func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf(format, args...))
		}, "did %d of %d", 3, "CC ")
		s.line("CC a.o")
		s.line("LD b.o")
		s.line("CC c.o")
		time.Sleep(pause + time.Millisecond)
		time.Sleep(pause) // silence is told too
		s.stop()
		time.Sleep(3 * pause)
		assert.Equal(t, []string{"did 2 of 3 (5s): CC c.o", "did 2 of 3 (10s): CC c.o"}, told)
	})
}

func TestLongLinesAreClipped(t *testing.T) {
	assert.Equal(t, "short", clip("short"))
	assert.Equal(t, strings.Repeat("é", 60)+"…", clip(strings.Repeat("é", 100)))
}
