package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	authnv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slurmlet/slurmlet/kubectl-slurm/slurm"
)

// agentPort is the agent's, where it serves what everybody may know (SLURMLET_LISTEN).
const agentPort = 8817

// get asks a pod's agent through the API server.
func (c *Client) get(ctx context.Context, p *corev1.Pod, path string) ([]byte, error) {
	text, err := c.api.CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("pods").Name(fmt.Sprintf("%s:%d", p.Name, agentPort)).
		SubResource("proxy").Suffix(path).DoRaw(ctx)
	return text, judge(Right{Verb: "get", Resource: "pods", Subresource: "proxy", Namespace: p.Namespace}, err)
}

// Public is what a pod's agent tells everybody: GET /status.
func (c *Client) Public(ctx context.Context, p *corev1.Pod) (*slurm.Agent, error) {
	text, err := c.get(ctx, p, "status")
	if err != nil {
		return nil, err
	}
	var s slurm.Agent
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("cannot read /status of pod %s: %w", p.Name, err)
	}
	return &s, nil
}

// nodeStates and jobStates are the states that are shown, by the ends of the metrics' names. Others count the same nodes and
// jobs again.
var (
	nodeStates = []string{"idle", "mixed", "alloc", "down", "drained", "draining", "fail", "failing", "unknown"}
	jobStates  = []string{"pending", "running", "suspended", "completing", "configuring"}
)

// Counts are how many nodes and jobs are in each state, by the metrics of slurmctld's agent.
func (c *Client) Counts(ctx context.Context, p *corev1.Pod) (nodes, jobs map[string]int, err error) {
	text, err := c.get(ctx, p, "metrics")
	if err != nil {
		return nil, nil, err
	}
	nodes, jobs = map[string]int{}, map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, number, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || n == 0 {
			continue
		}
		if state, is := strings.CutPrefix(name, "slurm_nodes_"); is && slices.Contains(nodeStates, state) {
			nodes[state] = int(n)
		}
		if state, is := strings.CutPrefix(name, "slurm_jobs_"); is && slices.Contains(jobStates, state) {
			jobs[state] = int(n)
		}
	}
	return nodes, jobs, lines.Err()
}

// Caller is the name by which the API server knows the caller; empty where it does not tell.
func (c *Client) Caller(ctx context.Context) string {
	answer, err := c.api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authnv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return answer.Status.UserInfo.Username
}

// Log opens the log of a pod's agent.
func (c *Client) Log(ctx context.Context, p *corev1.Pod, o corev1.PodLogOptions) (io.ReadCloser, error) {
	if o.Container == "" {
		o.Container = Container(p)
	}
	from, err := c.api.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &o).Stream(ctx)
	return from, judge(Right{Verb: "get", Resource: "pods", Subresource: "log", Namespace: p.Namespace}, err)
}
