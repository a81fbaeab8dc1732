package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/kit/keyring"
)

// jwks writes a slurm.jwks. The keys come from files: arguments can be seen by all.
func jwks(args []string) int {
	flags := flag.NewFlagSet("jwks", flag.ContinueOnError)
	expire := flags.Duration("expire", 0, "after what `duration` the keys but the first are not accepted any more (default: never)")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return agent.ExitOK
		}
		return agent.ExitUsage
	}
	if flags.NArg() == 0 || *expire < 0 {
		return misused(fmt.Errorf("jwks: want files with keys, and no negative duration, not %q", args))
	}
	text, err := keySet(flags.Args(), *expire)
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurmlet:", err)
		return agent.ExitFailure
	}
	return agent.ExitOK
}

func keySet(paths []string, expire time.Duration) ([]byte, error) {
	ring := &keyring.Ring{}
	for i, path := range paths {
		secret, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the key: %w", err)
		}
		var until time.Time
		if i > 0 && expire > 0 {
			until = time.Now().Add(expire)
		}
		key, err := keyring.NewKey(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), secret, until)
		if err != nil {
			return nil, fmt.Errorf("cannot use the key in %s: %w", path, err)
		}
		ring.Keys = append(ring.Keys, key)
	}
	return ring.MarshalJWKS()
}
