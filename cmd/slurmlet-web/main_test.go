package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// TestRun: the program ends at once where anybody could send it a header, and in order after SIGTERM.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"help":               {[]string{"-h"}, exitcode.OK},
		"the version":        {[]string{"-version"}, exitcode.OK},
		"no such flag":       {[]string{"-passwords", "users"}, exitcode.Usage},
		"an argument":        {[]string{"web"}, exitcode.Usage},
		"an address of all":  {[]string{"-listen", ":0", "-user-header", "X-User"}, exitcode.Config},
		"no proxy's name":    {[]string{"-listen", "unix:/tmp/s"}, exitcode.Config},
		"no certificate":     {[]string{"-listen", ":0", "-user-header", "X-User", "-tls-certificate", "/no", "-tls-key", "/no", "-client-ca", "/no"}, exitcode.Config},
		"no address at all":  {[]string{"-listen", "nowhere"}, exitcode.Config},
		"loopback, and ends": {[]string{"-listen", "127.0.0.1:0"}, exitcode.OK},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer end()
			require.Equal(t, c.code, run(ctx, c.args))
		})
	}
}
