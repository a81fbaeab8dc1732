package pid1

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestEarlySignals: a pod may be deleted before the agent has begun to listen. Go's runtime ends the process with 2 then.
func TestEarlySignals(t *testing.T) {
	assert.Equal(t, "terminated\n", play(t, true, "early"))
	assert.Equal(t, "terminated\n", play(t, true, "unheard"))
}

// earlyRole is sent SIGTERM before it asks for signals.
func earlyRole() int {
	if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
		fmt.Println(err)
	}
	signals, stop := Signals()
	defer stop()
	fmt.Println(next(signals))
	return 0
}

// unheardRole wants no signals: it is as if nobody had listened.
func unheardRole() int {
	if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
		fmt.Println(err)
	}
	Deafen(func(s os.Signal) { fmt.Println(s) })
	return 0
}
