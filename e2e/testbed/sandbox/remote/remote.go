// Package remote runs commands of the sandbox's server over SSH: it has
// standard streams, terminals, window sizes, signals, exit statuses and
// forwarded connections, and golang.org/x/crypto/ssh has all of that.
//
// A command is a verb and its arguments as a JSON array. Each sandbox has two
// fresh keys, one for each side.
package remote

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// Keys are the two private keys of a sandbox.
type Keys struct {
	Server, Client ssh.Signer
}

const (
	serverKey = "server.key"
	clientKey = "client.key"
)

// MakeKeys writes two new keys into dir, readable by their owner only.
func MakeKeys(dir string) (Keys, error) {
	for _, name := range []string{serverKey, clientKey} {
		if err := MakeKey(filepath.Join(dir, name)); err != nil {
			return Keys{}, err
		}
	}
	return ReadKeys(dir)
}

// MakeKey writes a new private key, readable by its owner only.
func MakeKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("cannot make key: %v", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "slurmlet-sandbox")
	if err != nil {
		return fmt.Errorf("cannot make key: %v", err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return fmt.Errorf("cannot make key: %v", err)
	}
	return nil
}

// ReadKeys reads what MakeKeys wrote.
func ReadKeys(dir string) (Keys, error) {
	server, err := ReadKey(filepath.Join(dir, serverKey))
	if err != nil {
		return Keys{}, err
	}
	client, err := ReadKey(filepath.Join(dir, clientKey))
	return Keys{Server: server, Client: client}, err
}

// CopyKeys gives another directory the same keys.
func CopyKeys(from, to string) error {
	for _, name := range []string{serverKey, clientKey} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("cannot copy key: %v", err)
		}
	}
	return nil
}

// ReadKey reads what MakeKey wrote.
func ReadKey(path string) (ssh.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read key: %v", err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("cannot read key %s: %v", path, err)
	}
	return key, nil
}

// Size is a terminal's, in characters.
type Size struct{ Columns, Rows uint32 }

// user is the one name that the server knows.
const user = "root"

func encode(args []string) (string, error) {
	data, err := json.Marshal(args)
	return string(data), err
}

func decode(command string) ([]string, error) {
	var args []string
	if err := json.Unmarshal([]byte(command), &args); err != nil || len(args) == 0 {
		return nil, fmt.Errorf("cannot run %q: want a JSON array of a verb and its arguments", command)
	}
	return args, nil
}
