package webpage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/unixsocket"
)

// Entrance is where the page is served. Whoever connects there is believed who the reader is, so there are three kinds:
// a loopback address, a unix socket, and any address where the client shows a certificate. Any pod can send a header.
type Entrance struct {
	// Address is host:port, or unix:PATH.
	Address string
	// UserHeader is the header in which a proxy names the reader. Empty: whoever reaches a loopback address reads
	// everything.
	UserHeader string
	// Certificate and Key are the page's own, PEM files; empty for no TLS.
	Certificate, Key string
	// ClientCA is a file of the authorities that sign proxies' certificates.
	ClientCA string
	// ClientName is the DNS name that a proxy's certificate must have; empty for any that ClientCA has signed.
	ClientName string
}

// secure says whether clients show certificates.
func (e Entrance) secure() bool { return e.Certificate != "" }

// check says what is wrong with the values together.
func (e Entrance) check() error {
	socket := strings.HasPrefix(e.Address, socketPrefix)
	switch {
	case e.secure() != (e.Key != "") || e.secure() != (e.ClientCA != ""):
		return errors.New(
			"-tls-certificate, -tls-key and -client-ca need each other: a header is taken from a client with a certificate alone")
	case e.ClientName != "" && !e.secure():
		return errors.New("-client-name needs -client-ca")
	case socket && e.secure():
		return errors.New("a unix socket has no TLS")
	case e.UserHeader == "" && (socket || e.secure()):
		return errors.New(
			"want -user-header: without it, whoever reaches a loopback address reads everything, and nobody else reads anything")
	}
	return nil
}

const socketPrefix = "unix:"

// Listen opens the entrance. It refuses an address of the network without certificates.
func (e Entrance) Listen(ctx context.Context) (net.Listener, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	if path, found := strings.CutPrefix(e.Address, socketPrefix); found {
		return unixsocket.ListenForGroup(path)
	}
	l, err := (&net.ListenConfig{KeepAlive: time.Minute}).Listen(ctx, "tcp", e.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the page: %w", err)
	}
	if at, tcp := l.Addr().(*net.TCPAddr); !e.secure() && (!tcp || !at.IP.IsLoopback()) {
		return nil, errors.Join(fmt.Errorf("%s is no loopback address: every pod can send a header there. "+
			"Want a loopback address, unix:PATH, or -tls-certificate, -tls-key and -client-ca", e.Address), l.Close())
	}
	return l, nil
}

// certificates reads the entrance's files anew after a while, because whoever issues certificates replaces them.
type certificates struct {
	Entrance
	lock  sync.Mutex
	until time.Time
	made  *tls.Config
	err   error
}

// certificatesTime is for how long files are used that may have been replaced meanwhile.
const certificatesTime = time.Minute

// config is for each client. The last good files serve while new ones cannot be read.
func (c *certificates) config(log *seldom) (*tls.Config, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if now := time.Now(); !now.Before(c.until) {
		made, err := c.read()
		if c.until = now.Add(certificatesTime); err == nil {
			c.made = made
		} else if c.made != nil {
			log.warn("cannot read the new certificates", err)
		}
		c.err = err
	}
	if c.made == nil {
		return nil, c.err
	}
	return c.made, nil
}

func (c *certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot use the page's certificate: %w", err)
	}
	text, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("cannot read -client-ca: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cannot use -client-ca: %s has no certificate", c.ClientCA)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities, VerifyConnection: c.isProxy,
		SessionTicketsDisabled: true, // else a client whose certificate was withdrawn comes back with its ticket
	}, nil
}

// isProxy judges whose certificate a client has shown.
func (c *certificates) isProxy(s tls.ConnectionState) error {
	if c.ClientName == "" {
		return nil
	}
	return s.PeerCertificates[0].VerifyHostname(c.ClientName)
}

// over wraps the door's connections in TLS.
func (c *certificates) over(l net.Listener, log *seldom) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config(log) },
	})
}
