// Slurmlet-web serves the status page of a cluster until SIGTERM. It has no right but to ask slurmctld's agent at its
// web socket (SLURMLET_WEB_SOCKET).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	ossignal "os/signal"
	"syscall"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/page/webpage"
)

// version is set by the linker.
var version = "development"

func main() {
	ctx, stop := ossignal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	var e webpage.Entrance
	flags := flag.NewFlagSet("slurmlet-web", flag.ContinueOnError)
	flags.StringVar(&e.Address, "listen", "127.0.0.1:8818", "host:port or unix:PATH of the page; "+
		"without certificates, host is a loopback address")
	socket := flags.String("socket", pagefacts.DefaultSocket, "SLURMLET_WEB_SOCKET of slurmctld's agent")
	flags.StringVar(&e.UserHeader, "user-header", "", "the `header` in which a proxy names the reader "+
		"(default: none, and whoever reaches the loopback address reads everything)")
	flags.StringVar(&e.Certificate, "tls-certificate", "", "a `file` with the page's certificate (PEM)")
	flags.StringVar(&e.Key, "tls-key", "", "a `file` with its key (PEM)")
	flags.StringVar(&e.ClientCA, "client-ca", "", "a `file` with the authorities that sign proxies' certificates (PEM)")
	flags.StringVar(&e.ClientName, "client-name", "", "the DNS `name` in a proxy's certificate (default: any that -client-ca has signed)")
	showVersion := flags.Bool("version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitcode.OK
	case err != nil:
		return exitcode.Usage
	case flags.NArg() > 0:
		fmt.Fprintf(os.Stderr, "slurmlet-web: no arguments but flags, not %q\n", flags.Args())
		return exitcode.Usage
	case *showVersion:
		fmt.Println("slurmlet-web", version)
		return exitcode.OK
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil)).With("source", "slurmlet-web")
	if err := serve(ctx, log, e, *socket); err != nil {
		log.Error(err.Error())
		return exitcode.Config
	}
	return exitcode.OK
}

func serve(ctx context.Context, log *slog.Logger, e webpage.Entrance, socket string) error {
	page, err := webpage.New(webpage.Options{Facts: pagefacts.NewClient(socket).Facts, Entrance: e, Log: log})
	if err != nil {
		return err
	}
	l, err := e.Listen(ctx)
	if err != nil {
		return err
	}
	log.Info("serves the page", "address", l.Addr().String(), "version", version)
	return page.Serve(ctx, l)
}
