package native

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Main is the rest of a program's main, and ends the program. Where Enter has run the program, Main
// runs inside, as Run does. Elsewhere it runs outside, which SIGINT and SIGTERM interrupt.
func Main[Settings any](outside func(context.Context) error, inside func(Settings) error) {
	Run(inside)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := outside(ctx)
	stop()
	exit(err)
}

// exit ends the program, with status 1 and a line on stderr if something failed.
func exit(err error) {
	if err != nil {
		Progress("%v", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Progress prints a line to stderr, behind the program's name.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, filepath.Base(os.Args[0])+": "+format+"\n", args...)
}

// FindSlurmlet makes the path of the agent's binary absolute. The binary must be there.
func FindSlurmlet(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find slurmlet; build it first: %w", err)
	}
	return path, nil
}
