package fabric

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/machine"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/internal/pod/pid1"
)

// Run is PID 1 of a bed, in fresh namespaces, called from the main goroutine.
// Its descriptor 3 is a listener on the host's loopback. It returns the exit
// code when there could be no bed; else it runs until it is killed.
func Run(dir string) int {
	code, err := pid1.Run(func(pid1.Exit) {}, func() int {
		say("%v", run(dir)) // it returns only for an error
		return 1
	})
	if err != nil {
		say("%v", err)
		return 1
	}
	return code
}

// say writes to the console, which the launcher keeps in a file.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bed: "+format+"\n", args...) }

// door is the listener for the API on the host's loopback.
const door = 3

func run(dir string) error {
	settings, err := Read(dir)
	if err != nil {
		return err
	}
	keys, err := remote.ReadKeys(dir)
	if err != nil {
		return err
	}
	api, err := net.FileListener(os.NewFile(door, "api"))
	if err != nil {
		return fmt.Errorf("cannot listen for the API's clients: %v", err)
	}
	if err := machine.OwnMounts(); err != nil {
		return err
	}
	if err := settings.connect(); err != nil {
		return err
	}
	listen, err := net.Listen("unix", filepath.Join(dir, Socket))
	if err != nil {
		return fmt.Errorf("cannot listen: %v", err)
	}
	nodes, plane := newComputers(settings, dir), newPlane(dir, settings.Programs)
	go serveAPI(api)
	go func() {
		if err := plane.start(); err != nil {
			say("%v", err)
		}
	}()
	return remote.NewServer(keys.Server, keys.Client.PublicKey(), &server{nodes, plane}).Serve(listen)
}

// server executes commands about the machines and the names of the bed.
type server struct {
	nodes computers
	plane plane
}

// Execute does what the client asked for.
func (s *server) Execute(ctx context.Context, c remote.Command) int {
	return remote.Verbs{
		"on":   {Arguments: "NODE", Do: s.each((*computer).on)},
		"off":  {Arguments: "NODE", Do: s.each((*computer).off)},
		"link": {Arguments: "NODE up|down", Do: s.link},
		"dns":  {Arguments: "up|down", Do: s.dns},
	}.Execute(ctx, c)
}

func (s *server) each(do func(*computer) error) func(context.Context, remote.Command, []string) (int, error) {
	return func(_ context.Context, _ remote.Command, args []string) (int, error) {
		n, err := s.nodes.named(args[0])
		if err != nil {
			return 0, err
		}
		return 0, do(n)
	}
}

func (s *server) link(_ context.Context, _ remote.Command, args []string) (int, error) {
	n, err := s.nodes.named(args[0])
	if err != nil {
		return 0, err
	}
	up, err := isUp(args[1])
	if err != nil {
		return 0, fmt.Errorf("cannot set link: %v", err)
	}
	return 0, n.plug(up)
}

func (s *server) dns(_ context.Context, _ remote.Command, args []string) (int, error) {
	up, err := isUp(args[0])
	if err != nil {
		return 0, fmt.Errorf("cannot set DNS: %v", err)
	}
	return 0, s.plane.answer(up)
}

func isUp(word string) (bool, error) {
	if word != "up" && word != "down" {
		return false, fmt.Errorf("want up or down, not %q", word)
	}
	return word == "up", nil
}

// Dial connects to a port on the bed's network: of a node, or of a pod.
func (s *server) Dial(ctx context.Context, host, port string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}
