package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgressTellsWhatIsBuilt(t *testing.T) {
	const said = `#1 [internal] load local bake definitions
#1 DONE 0.0s

#18 [slurmd-24-11 slurm 1/3] COPY images/etc /etc
#18 DONE 0.1s

#31 [login-24-11 slurm 2/3] RUN --mount=type=tmpfs,target=/tmp <<EOF (set -eu...)
#31 2.421 Preconfiguring packages ...

#32 [slurmdbd-26-05 slurm 2/3] RUN --mount=type=tmpfs,target=/tmp <<EOF (set -eu...)
#32 CACHED

#31 [login-24-11 slurm 2/3] RUN --mount=type=tmpfs,target=/tmp <<EOF (set -eu...)
#31 DONE 5.5s

#27 [agent] exporting to oci image format
#27 exporting layers 0.6s done
#27 DONE 0.6s

#41 [slurmd-26-05 role 1/2] RUN apt-get
#41 ERROR: process did not complete
`
	var log, seen bytes.Buffer
	p := newProgress(&log, func(format string, args ...any) { fmt.Fprintf(&seen, format+"\n", args...) })
	for _, b := range []byte(said) {
		n, err := p.Write([]byte{b})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	assert.Equal(t, said, log.String())
	assert.Equal(t, `login-24-11: stage slurm, step 2 of 3
login-24-11: stage slurm, step 2 of 3: done (5.5s)
agent: writes the image
agent: writes the image: done (0.6s)
slurmd-26-05: stage role, step 1 of 2
`, seen.String())
}
