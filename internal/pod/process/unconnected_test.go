package process

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// connectVariable makes this program connect to what it names, "network address", and print what came of it.
const connectVariable = "PROCESS_TEST_CONNECT"

func init() {
	if to, given := os.LookupEnv(connectVariable); given {
		fmt.Println(connect(strings.Cut(to, " ")))
		os.Exit(0)
	}
}

func connect(network, address string, _ bool) error {
	if network == "unix" { // as C programs do: net passes no more of the address than there is
		return connectUnix(address)
	}
	conn, err := net.Dial(network, address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

func connectUnix(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path + strings.Repeat("\x00", 107-len(path))})
}

func TestUnconnected(t *testing.T) {
	const unreachable = "network is unreachable"
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	local, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	require.NoError(t, err)
	defer local.Close()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, c := range []struct{ network, address, unconnected, connected string }{
		{"tcp", tcp.Addr().String(), unreachable, "<nil>"},
		{"udp", "127.0.0.1:53", unreachable, "<nil>"},
		{"unix", local.Addr().String(), "<nil>", "<nil>"},
	} {
		for _, unconnected := range []bool{true, false} {
			out := collect(t)
			command := shell(self + "; " + self) // both of what it starts
			command.Env = []string{connectVariable + "=" + c.network + " " + c.address, "GORACE=atexit_sleep_ms=0"}
			command.Stdout, command.Unconnected = out.File(), unconnected
			p := start(t, command)
			want := map[bool]string{true: c.unconnected, false: c.connected}[unconnected]
			for range 2 {
				assert.Contains(t, out.text(t), want, "%s, unconnected: %v", c.network, unconnected)
			}
			assert.Equal(t, Status{}, ended(t, p))
		}
	}
	assert.NoError(t, connect("tcp", tcp.Addr().String(), true), "we ourselves")
}
