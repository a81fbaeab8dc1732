package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// usedPort is an address on which somebody listens until the test's end.
func usedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// ports are what the kernel gives nobody who asks for any port: net.ipv4.ip_local_port_range begins above them.
const firstPort, ports = 20_000, 12_000

var port atomic.Uint32

func init() { port.Store(rand.Uint32()) }

// freePort is of an address on which nobody else in these tests listens, so that nobody takes it meanwhile.
func freePort(t testing.TB) string {
	t.Helper()
	for range ports {
		address := fmt.Sprintf("127.0.0.2:%d", firstPort+port.Add(1)%ports)
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	t.Fatal("no port is free on 127.0.0.2")
	return ""
}

func httpStatus(t *testing.T, address, path string) int {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// fetch is what strangers are told.
func fetch(t *testing.T, address, path string) string {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}
