// Package prometheus runs a Prometheus for a test, and asks it.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

// Server is the address of a Prometheus, host:port.
type Server string

// readyLimit bounds the start. Beside a dozen clusters it takes some seconds.
const readyLimit = 40 * time.Second

// Start runs a Prometheus with a configuration, whose data are in dir, until stop is called or ctx ends.
func Start(ctx context.Context, program, dir string, config any) (s Server, stop func(), err error) {
	text, err := yaml.Marshal(config)
	file := filepath.Join(dir, "prometheus.yml")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot write the configuration of Prometheus: %w", err)
	}
	if s, err = unusedAddress(); err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+string(s), "--log.level=warn")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("cannot start Prometheus: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop = func() {
		_ = cmd.Process.Kill() // the context may have done it
		<-ended
	}
	if err := s.awaitReady(ended); err != nil {
		stop()
		return "", nil, err
	}
	return s, stop, nil
}

func unusedAddress() (Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot find an address for Prometheus: %w", err)
	}
	return Server(l.Addr().String()), l.Close()
}

func (s Server) awaitReady(ended <-chan struct{}) error {
	for limit := time.After(readyLimit); ; {
		answer, err := http.Get("http://" + string(s) + "/-/ready") //nolint:noctx // it listens on this machine
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("prometheus has ended: its own words are above")
		case <-limit:
			return fmt.Errorf("prometheus is not ready within %v", readyLimit)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Ask reads the data of an answer of its API, as of "query" or "rules".
func (s Server) Ask(path string, values url.Values, data any) error {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + string(s) + "/api/v1/" + path + "?" + values.Encode()) //nolint:noctx // it has a timeout
	if err != nil {
		return fmt.Errorf("cannot ask Prometheus: %w", err)
	}
	defer answer.Body.Close()
	reply := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil {
		return fmt.Errorf("cannot read the answer of Prometheus: %w", err)
	}
	if reply.Status != "success" {
		return fmt.Errorf("prometheus refuses %s: %s", values, reply.Error)
	}
	return nil
}
