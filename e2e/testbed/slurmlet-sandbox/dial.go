package main

import (
	"context"
	"flag"
	"io"
	"os"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// dial is a ProxyCommand for ssh(1), among others: it ends when the pod closes
// the connection.
func dial(f *flag.FlagSet) action {
	name := nameFlag(f)
	return func(ctx context.Context, args []string) (int, error) {
		return with(ctx, *name, func(s *sandbox.Sandbox) (int, error) {
			conn, err := s.Dial(ctx, args[0])
			if err != nil {
				return 0, err
			}
			defer conn.Close()
			go func() {
				_, _ = io.Copy(conn, os.Stdin)
				if half, ok := conn.(interface{ CloseWrite() error }); ok {
					_ = half.CloseWrite()
				}
			}()
			_, err = io.Copy(os.Stdout, conn)
			return 0, err
		})
	}
}
