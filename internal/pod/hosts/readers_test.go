package hosts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHostsReaders has eight readers look at the file in a loop during 10,000 changes. None sees a torn line,
// or misses a peer that lives.
func TestHostsReaders(t *testing.T) {
	const steady, moving, changes = 60, 60, 3_000
	path := hostsFile(t, kubelets)
	h := New(path)
	address := func(i, n int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i), byte(n >> 8), byte(n)}) }
	set := map[string][]netip.Addr{}
	for i := range steady {
		set[fmt.Sprintf("steady-%d", i)] = append(addrs(fmt.Sprintf("fd00::%d", i+1)), address(i, 1))
	}
	for i := range moving {
		set[fmt.Sprintf("moving-%d", i)] = []netip.Addr{address(i, 0)}
	}
	require.NoError(t, h.Set(set))

	done := make(chan struct{})
	var readers sync.WaitGroup
	var reads [8]atomic.Int64
	for n := range 8 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := look(path, []int{1024, 4096, 64 << 10}[n%3], steady, moving); err != nil {
					t.Error(err)
					return
				}
				reads[n].Add(1)
			}
		})
	}
	passed := time.Now()
	h.now, h.later = func() time.Time { return passed }, func(time.Duration, func()) {}
	for n := range changes {
		if n%500 == 0 && !t.Failed() { // places serve again once nobody reads what they were
			var began [8]int64
			for i := range reads {
				began[i] = reads[i].Load()
			}
			for i := range reads {
				require.Eventually(t, func() bool { return t.Failed() || reads[i].Load() > began[i]+1 }, time.Minute, time.Millisecond)
			}
			passed = passed.Add(quarantine + time.Second)
		}
		i := rand.IntN(moving)
		change := map[string][]netip.Addr{fmt.Sprintf("moving-%d", i): {address(i, n)}}
		switch n % 3 {
		case 0:
			change[fmt.Sprintf("fleeting-%d", n%20)] = addrs("10.200.0.1")
		case 1:
			change[fmt.Sprintf("fleeting-%d", n%20)] = nil
		}
		require.NoError(t, h.Set(change))
	}
	close(done)
	readers.Wait()
	total := int64(0)
	for i := range reads {
		total += reads[i].Load()
	}
	t.Logf("%d reads, a file of %d bytes", total, len(content(t, path)))
	checkBlocks(t, path, len(kubelets))
}

// look reads the file as a resolver with a buffer of that size does.
func look(path string, size, steady, moving int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	seen := map[string]int{}
	// Reads begin at multiples of the size, as those of stdio do.
	lines := bufio.NewReaderSize(chunks{f, size}, 128<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte("#")) {
			continue
		}
		addr, names, ok := parseHosts(line)
		if !ok {
			return fmt.Errorf("a torn line: %q", line)
		}
		name := names[0]
		var i int
		if n, _ := fmt.Sscanf(name, "moving-%d", &i); n == 1 && (!addr.Is4() || addr.As4()[1] != byte(i)) {
			return fmt.Errorf("an address that the name never had: %q", line)
		}
		if bytes.HasSuffix(line, []byte(mark+"\n")) && string(line) != string(lineOf(addr, name)) {
			return fmt.Errorf("a torn line: %q", line)
		}
		seen[name]++
	}
	for i := range steady {
		if n := seen[fmt.Sprintf("steady-%d", i)]; n != 2 {
			return fmt.Errorf("steady-%d has %d lines", i, n)
		}
	}
	for i := range moving {
		if seen[fmt.Sprintf("moving-%d", i)] == 0 {
			return fmt.Errorf("moving-%d is missing", i)
		}
	}
	return nil
}

type chunks struct {
	*os.File
	size int
}

func (c chunks) Read(b []byte) (int, error) { return c.File.Read(b[:min(len(b), c.size)]) }

// TestGetent asks glibc's own reader, in a mount namespace in which the file is /etc/hosts.
func TestGetent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	path := hostsFile(t, kubelets)
	h := New(path)
	address := func(n int) []netip.Addr { return []netip.Addr{netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)})} }
	set := map[string][]netip.Addr{"moving": address(0)}
	for i := range 100 {
		set[fmt.Sprintf("n%d", i)] = addrs(fmt.Sprintf("10.0.0.%d", i))
	}
	require.NoError(t, h.Set(set))
	const loop = `mount --make-rprivate / && mount --bind "$1" /etc/hosts || exit 9
		for i in $(seq 20); do
			getent hosts moving > /dev/null || { echo "moving is missing"; exit 1; }
			[ "$(getent hosts n77 | tr -s ' ')" = "10.0.0.77 n77" ] || { echo "n77 is missing"; exit 1; }
		done`
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", loop, "sh", path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for n := 1; ; n++ {
		require.NoError(t, h.Set(map[string][]netip.Addr{"moving": address(n)}))
		select {
		case err := <-ended:
			if status, is := errors.AsType[*exec.ExitError](err); is && status.ExitCode() == 9 {
				t.Skip("cannot mount: " + out.String())
			}
			require.NoError(t, err, out.String())
			t.Logf("%d changes", n)
			return
		default:
		}
	}
}
