package slurmdbd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadDBD(t *testing.T) {
	d, err := readDBD("DbdHost=x\nStorageHost=db # there\nstoragepass=\"s e\"\nStorageUser=slurm\nStoragePort=3307\nDbdPort=7000\n")
	require.NoError(t, err)
	require.Equal(t, []any{"7000", "db:3307", "slurm", "s e"}, []any{d.port, d.storage.Addr, d.storage.User, d.storage.Passwd})
	require.Nil(t, d.storage.TLS)

	d, err = readDBD("StorageHost=localhost\nStoragePass=secret\n")
	require.NoError(t, err)
	require.Equal(t, dbd{port: "6819", loc: "slurm_acct_db"}, d, "a socket is slurmdbd's own affair")

	_, err = readDBD("StorageHost=db\nStorageParameters=SSL_CA=/none/ca.pem\n")
	require.ErrorContains(t, err, "/none/ca.pem")
	d, err = readDBD("StorageHost=db\nStorageParameters=SSL_CERT=\n")
	require.NoError(t, err)
	require.Nil(t, d.storage.TLS)
}

// TestStorageTLS: the database's certificate must come from SSL_CA, whatever name
// it is for.
func TestStorageTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	dial := func(parameters string) error {
		config, err := storageTLS(parameters)
		require.NoError(t, err)
		config.ServerName = "another.name"
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), config)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	write := func(der []byte) {
		require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	}
	write(server.Certificate().Raw)
	require.NoError(t, dial("SSL_CA="+ca))

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	other := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, other, other, key.Public(), key)
	require.NoError(t, err)
	write(der)
	require.ErrorContains(t, dial("ssl_ca="+ca), "unknown authority")

	require.NoError(t, os.WriteFile(ca, []byte("none"), 0o600))
	_, err = storageTLS("SSL_CA=" + ca)
	require.ErrorContains(t, err, "there is no certificate in "+ca)
}

// TestNoSecretIsTold: not even where it is the fault.
func TestNoSecretIsTold(t *testing.T) {
	for _, text := range []string{"StoragePass secret\n", "StoragePass=secret secret\n", "secret\n", "StorageHost=db\nStoragePass=\"secret\n=\n"} {
		_, err := readDBD(text)
		if err != nil {
			require.NotContains(t, err.Error(), "secret", text)
		}
	}
	_, err := readDBD("secret\n")
	require.ErrorContains(t, err, "slurmdbd.conf:1")
}

func TestNeedsRestart(t *testing.T) {
	read := func(text string) dbd {
		d, err := readDBD(text)
		require.NoError(t, err)
		return d
	}
	before := read("StorageHost=db\nStoragePass=a\n")
	for text, want := range map[string]bool{
		"StorageHost=db\nStoragePass=a\nDebugLevel=debug\n": false,
		"StorageHost=db\nStoragePass=b\n":                   true,
		"StorageHost=other\nStoragePass=a\n":                true,
		"StorageHost=db\nStoragePass=a\nDbdPort=7000\n":     true,
		"StorageHost=localhost\nStoragePass=a\n":            true,
	} {
		require.Equal(t, want, needsRestart(before, read(text), []string{slurmdbdConf}), text)
	}
	require.True(t, needsRestart(before, before, []string{"slurm.key"}))
}

// TestConfirmAsksTheOneThatRuns: an edit of the port counts for the next slurmdbd.
func TestConfirmAsksTheOneThatRuns(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := NewDatabase(Options{ConfDir: t.TempDir(), RunDir: t.TempDir(), UID: os.Getuid(), GID: os.Getgid()})
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	edit := func(port string) {
		require.NoError(t, os.WriteFile(filepath.Join(d.ConfDir, slurmdbdConf), []byte("StorageHost=db\nDbdPort="+port+"\n"), 0o600))
		_, err := d.copy.Sync()
		require.NoError(t, err)
	}
	edit(port)
	require.Error(t, d.Confirm(t.Context()), "none runs")
	d.Starts()
	require.NoError(t, d.Confirm(t.Context()))
	edit("1")
	require.NoError(t, d.Confirm(t.Context()))
	require.NoError(t, l.Close())
	require.EqualError(t, d.Confirm(t.Context()), "it does not listen on port "+port+" yet")
}
