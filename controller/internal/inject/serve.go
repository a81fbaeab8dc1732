package inject

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// These bound what the webhook's port takes. The API server sends a request of some 10 kB at once, and waits for
// the answer for timeoutSeconds of the webhook's configuration.
const (
	headTime   = 10 * time.Second // with the handshake
	reviewTime = 10 * time.Second
	answerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHead    = 16 << 10
)

// Serve answers on a listener until ctx ends, and lets requests that have come end then. It bounds how many
// callers there are.
func Serve(ctx context.Context, l net.Listener, certificates *tls.Config, handler http.Handler, log *slog.Logger) error {
	return serveGuarded(ctx, newGuard(l, usual), certificates, handler, log)
}

func serveGuarded(ctx context.Context, g *guard, certificates *tls.Config, handler http.Handler, log *slog.Logger) error {
	certificates = certificates.Clone()
	certificates.NextProtos = []string{"http/1.1"} // in HTTP/2 a connection would have many requests
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: g.head, ReadTimeout: g.review, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
		ConnContext: withCaller, ConnState: note,
		// Strangers who do not finish a handshake would fill the log.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ending, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ending.Done()
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		if server.Shutdown(over) != nil {
			_ = server.Close() // what is left has had its time
		}
	}()
	err := server.Serve(tls.NewListener(g, certificates))
	end()
	<-ended
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
