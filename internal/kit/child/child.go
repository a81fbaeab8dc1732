// Package child runs commands in a program that ends threads and reaps orphans.
//
// Linux keeps a child's parent per thread. The end of that thread makes the child an orphan, which the first thread of a PID 1
// collects, and os/exec waits for it in vain ("waitid: no child processes"). A thread of the agent ends with each connection of
// a user to Slurm (internal/pod/sack).
package child

import (
	"os/exec"
	"runtime"
)

// Run is cmd.Run on a thread that does not end before the command has.
func Run(cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ended <- cmd.Run()
	}()
	return <-ended
}
