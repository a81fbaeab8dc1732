package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/podmaker"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/pod"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/remote"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// elasticPods are those that Slurm may want.
type elasticPods struct {
	kubelet *pod.Kubelet
	// slurmctld is slurmctld's pod, whose agent knows what Slurm wants.
	slurmctld string
	specs     map[string]pod.Spec
	maker     *podmaker.Maker

	lock sync.Mutex
	runs map[string]string // the UIDs of pods that were created
}

// elasticGrace is what such a pod gets when Slurm has ended its node.
const elasticGrace = 30 * time.Second

// making is the sandbox's maker of pods. There is one at most.
type making struct {
	lock sync.Mutex
	stop context.CancelFunc
}

// end has no more pods made.
func (m *making) end() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

// elastic has a maker of pods follow what the agent of slurmctld's pod tells.
func (s *server) elastic(_ context.Context, c remote.Command, args []string) (int, error) {
	var specs []pod.Spec
	if err := json.NewDecoder(c.Stdin).Decode(&specs); err != nil {
		return 0, fmt.Errorf("cannot follow Slurm: %v", err)
	}
	e := &elasticPods{kubelet: s.kubelet, slurmctld: args[0], specs: map[string]pod.Spec{}, runs: map[string]string{}}
	for _, spec := range specs {
		if err := spec.Validate(); err != nil {
			return 0, err
		}
		e.specs[spec.Name] = spec
	}
	s.making.lock.Lock()
	defer s.making.lock.Unlock()
	if s.making.stop != nil {
		return 0, errors.New("cannot follow Slurm: somebody does")
	}
	ctx, stop := context.WithCancel(context.Background())
	s.making.stop = stop
	e.maker = podmaker.New(e, e.wanted, say)
	go e.maker.Run(ctx)
	return 0, nil
}

// wanted asks the agent of slurmctld's pod.
func (e *elasticPods) wanted(ctx context.Context) (podmaker.Wanted, error) {
	e.missing()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/elastic", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		socket, err := e.kubelet.Path(e.slurmctld, "/run/slurmlet/agent.sock")
		if err != nil {
			return nil, err
		}
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the agent of %s answers %s", e.slurmctld, response.Status)
	}
	var nodes []wire.NodeReport
	if err := json.NewDecoder(response.Body).Decode(&nodes); err != nil {
		return nil, fmt.Errorf("cannot read what the agent of %s answers: %v", e.slurmctld, err)
	}
	wanted := podmaker.Wanted{}
	for _, n := range nodes {
		if _, is := e.specs[n.Name]; is {
			wanted[n.Name] = n.Wanted
		}
	}
	return wanted, nil
}

// missing tells the maker of pods that somebody has deleted.
func (e *elasticPods) missing() {
	e.lock.Lock()
	defer e.lock.Unlock()
	for name, uid := range e.runs {
		if _, err := e.kubelet.IP(name); err != nil { // there is no such pod
			delete(e.runs, name)
			e.maker.Lost(name, uid)
		}
	}
}

// Create makes a pod.
func (e *elasticPods) Create(_ context.Context, name, uid string) error {
	say("Slurm wants node %s", name)
	if err := e.kubelet.Create(e.specs[name]); err != nil {
		return err
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	e.runs[name] = uid
	return nil
}

// Delete ends a pod.
func (e *elasticPods) Delete(name, _ string) error {
	say("Slurm has ended node %s", name)
	e.lock.Lock()
	_, runs := e.runs[name]
	delete(e.runs, name)
	e.lock.Unlock()
	if !runs {
		return nil
	}
	_, err := e.kubelet.Delete(name, elasticGrace)
	return err
}
