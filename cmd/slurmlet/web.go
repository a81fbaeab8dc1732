package main

import (
	"context"
	"flag"
	"log/slog"
	"net"
	ossignal "os/signal"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/internal/page/pagefacts"
	"github.com/slurmlet/slurmlet/internal/page/webpage"
)

// web serves the status page until SIGTERM. It is a process of its own, with no right but to ask
// slurmctld's agent at its web socket.
func web(args []string) int {
	flags := flag.NewFlagSet("web", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8818", "[host]:port of the page")
	socket := flags.String("socket", agent.DefaultWebSocket, "SLURMLET_WEB_SOCKET of slurmctld's agent")
	passwords := flags.String("passwords", "", "a `file` of names and bcrypt hashes, as htpasswd -B -C 10 writes it (default: none)")
	tokens := flags.Bool("tokens", false, "take Slurm's JSON Web Tokens (scontrol token), which slurmctld's agent judges")
	if code, done := parse(flags, args); done {
		return code
	}
	client := pagefacts.NewClient(*socket)
	o := webpage.Options{Facts: client.Facts, Passwords: *passwords}
	if *tokens {
		o.Token = client.User
	}
	output := newOutput()
	defer output.Flush(flushTime)
	o.Log = newLog(output, slog.LevelInfo).With("source", agent.Source)
	page, err := webpage.New(o)
	if err != nil {
		o.Log.Error(err.Error())
		return agent.ExitConfig
	}
	ctx, stop := ossignal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	l, err := (&net.ListenConfig{KeepAlive: time.Minute}).Listen(ctx, "tcp", *listen)
	if err != nil {
		o.Log.Error("cannot serve the page", "error", err.Error())
		return agent.ExitFailure
	}
	o.Log.Info("serves the page", "address", l.Addr().String())
	if err := page.Serve(ctx, l); err != nil {
		o.Log.Error(err.Error())
		return agent.ExitFailure
	}
	return agent.ExitOK
}
