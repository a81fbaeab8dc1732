package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/guest"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/internal/pod/pid1"
)

// Init is a guest's init, in its boot directory, which is its root.
const Init = "/init-node"

// Port is where a node serves commands (package remote).
const Port = 22

// Run is PID 1 of a node: of a guest, or of a pid namespace. It returns the exit
// code when the node could not be made; else it runs until it is killed. It has
// to be called from the main goroutine.
func Run(boot string) int {
	code, err := pid1.Run(func(pid1.Exit) {}, func() int {
		say("%v", run(boot)) // it returns only for an error
		return 1
	})
	if err != nil {
		say("%v", err)
		return 1
	}
	if guest.Is(Init) {
		guest.PowerOff()
	}
	return code
}

// say writes to the console, which the launcher keeps in a file.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "node: "+format+"\n", args...) }

func run(boot string) error {
	settings, err := Read(boot)
	if err != nil {
		return err
	}
	keys, err := remote.ReadKeys(boot)
	if err != nil {
		return err
	}
	if err := settings.connect(); err != nil {
		return err
	}
	listen, err := net.Listen("tcp", fmt.Sprintf("%s:%d", settings.Address, Port))
	if err != nil {
		return fmt.Errorf("cannot listen: %v", err)
	}
	if err := settings.makeMachine(filepath.Join(boot, "scratch")); err != nil {
		return err
	}
	programs, err := settings.start()
	if err != nil {
		return err
	}
	go offerFuse()
	say("ready")
	return remote.NewServer(keys.Server, keys.Client.PublicKey(), &server{settings, programs}).Serve(listen)
}

// server executes commands on the node.
type server struct {
	settings Settings
	programs programs
}

// Dial connects to a port that the node can reach.
func (s *server) Dial(ctx context.Context, host, port string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}
