package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
)

// logs copies a pod's output, and goes on with it until the pod or the client
// goes if it is to follow.
func (s *server) logs(ctx context.Context, c remote.Command, args []string) (int, error) {
	follow, err := strconv.ParseBool(args[1])
	if err != nil {
		return 0, fmt.Errorf("cannot read log: %v", err)
	}
	path, err := s.kubelet.Log(args[0])
	if err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("cannot read log: %v", err)
	}
	defer f.Close()
	return 0, tail(ctx, c.Stdout, f, func() bool {
		_, err := os.Stat(path)
		return follow && err == nil
	})
}

// tail copies what is there and what comes while more says so.
func tail(ctx context.Context, to io.Writer, from io.Reader, more func() bool) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		there := more() // asked first: nothing is written after the pod went
		if _, err := io.Copy(to, from); err != nil {
			return fmt.Errorf("cannot copy log: %v", err)
		}
		if !there {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
