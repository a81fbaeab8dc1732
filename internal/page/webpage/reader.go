package webpage

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"unicode"
)

// mostName bounds the reader's name, in bytes. No user's name is that long.
const mostName = 256

var (
	errHeader = errors.New("want one name of at most 256 bytes in the header with the reader's name")
	errHost   = errors.New("this page is for a browser at 127.0.0.1 or localhost; one behind a proxy needs -user-header")
)

// reader is who asks. The listener has let nobody in who may not say so (Entrance.Listen).
type reader struct {
	// named: the reader may read everything.
	named bool
	// name is the user's, empty where the proxy gives none.
	name string
}

// readerOf judges a request by the header that a proxy sets. Without such a header's name everybody is a named reader:
// then the page is on loopback, and a browser there names loopback as its Host. Another site's page could lead a
// browser here by its own name (DNS rebinding).
func readerOf(r *http.Request, userHeader string) (reader, error) {
	if userHeader == "" {
		if !isLoopback(r.Host) {
			return reader{}, errHost
		}
		return reader{named: true}, nil
	}
	values := r.Header.Values(userHeader)
	if len(values) == 0 {
		return reader{}, nil
	}
	name := values[0]
	// A second value may be the client's own, which its proxy should have removed.
	if len(values) > 1 || name == "" || len(name) > mostName || strings.ContainsFunc(name, unicode.IsControl) {
		return reader{}, errHeader
	}
	return reader{named: true, name: name}, nil
}

// isLoopback says whether a Host header names this machine itself.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && address.Unmap().IsLoopback()
}
