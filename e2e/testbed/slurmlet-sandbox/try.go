package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox"
)

// readyLimit is how long the agents may take to be Ready: the database is made,
// then slurmdbd's tables, and slurmctld waits for both.
const readyLimit = 5 * time.Minute

// elasticNodes are those of the partition whose nodes Slurm starts and ends.
const elasticNodes = 3

// cluster makes the pods, waits for them and shows that jobs run.
func cluster(ctx context.Context, s *sandbox.Sandbox, name string, nodes int) error {
	say := progress()
	c, err := standard(s)
	if err != nil {
		return err
	}
	specs := podsOf(c, nodes)
	say("creating pods: %s", podNames(specs))
	if err := s.CreateAll(ctx, specs...); err != nil {
		return err
	}
	if err := s.Elastic(ctx, c.ElasticNodes()...); err != nil {
		return err
	}
	say("waiting until the agents are Ready (at most %v)", readyLimit)
	if err := s.WaitReady(ctx, readyLimit, say, withAgent(specs)...); err != nil {
		return err
	}
	if nodes == 0 {
		return nil
	}
	for _, one := range tries(nodes) {
		if err := try(ctx, s, one); err != nil {
			return err
		}
	}
	if err := tryREST(ctx, s); err != nil {
		return err
	}
	fmt.Print(nextLines(os.Args[0], sshLine(s, name), name))
	return nil
}

// standard is the cluster that up makes.
func standard(s *sandbox.Sandbox) (sandbox.Cluster, error) {
	c, err := s.Cluster()
	return c.Accounting().WithElastic(elasticNodes), err
}

// podsOf are the cluster's pods, but those that Slurm itself starts.
func podsOf(c sandbox.Cluster, nodes int) []sandbox.PodSpec {
	specs := []sandbox.PodSpec{c.Database(), c.Slurmdbd(), c.Slurmctld(), c.Login(), c.REST()}
	for i := range nodes {
		specs = append(specs, c.Node(i))
	}
	return specs
}

func podNames(specs []sandbox.PodSpec) string {
	var out []string
	for _, p := range specs {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// sshLine is how to come into the login pod from this machine.
func sshLine(s *sandbox.Sandbox, name string) string {
	return fmt.Sprintf("ssh -i %s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ProxyCommand='%s dial -name %s login:22' %s@login",
		s.UserKey(), os.Args[0], name, sandbox.User)
}

func withAgent(specs []sandbox.PodSpec) []string {
	var out []string
	for _, p := range specs {
		if p.Role != "" {
			out = append(out, p.Name)
		}
	}
	return out
}

// next tells what to type. %[1]s is this program as it was called, and %[6]s the flag with the cluster's name.
const next = `
Try next (%[7]smake down does what down does):
  %[2]s
                                           where users come in: srun, sbatch
  %[1]s exec%[6]s -it -u alice login bash       the same without ssh
  %[1]s exec%[6]s node-0 slurmlet status        what an agent says
  %[1]s logs%[6]s -f slurmctld                  its one stream of JSON
  %[1]s scale%[6]s 3                            one node more
  %[1]s exec%[6]s -u alice login sh -c 'curl -sH "X-SLURM-USER-TOKEN: $(scontrol token | cut -d= -f2)" http://%[3]s:%[4]d%[5]s'
                                           what slurmrestd says to alice
  %[1]s delete%[6]s node-1                      a pod's end, as a kubelet does it
  %[1]s create%[6]s node-1                      the same pod again
  %[1]s down%[6]s                               remove everything
`

// nextLines has the cluster's name in each command, but where it is the one that every shell takes.
func nextLines(program, ssh, name string) string {
	flag, environ := "", ""
	if name != defaultCluster {
		flag, environ = " -name "+name, "SLURMLET_SANDBOX_NAME="+name+" "
	}
	return fmt.Sprintf(next, program, ssh, sandbox.Slurmrestd, sandbox.RESTPort, restPath, flag, environ)
}

// tries are shown and run in a shell on the login pod, as alice.
func tries(nodes int) []string {
	return []string{
		fmt.Sprintf("srun -N%d hostname", nodes),
		"sbatch --wait --output=hello.out --wrap 'echo hello from $(hostname) in job $SLURM_JOB_ID' && cat hello.out",
		fmt.Sprintf("srun -p %s -N%d hostname", sandbox.ElasticSet, elasticNodes),
		"sinfo",
		"sacct -X -o jobid,jobname,user,nodelist,state",
	}
}

func try(ctx context.Context, s *sandbox.Sandbox, line string) error {
	fmt.Printf("\nalice@login$ %s\n", line)
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("no end of it within %v", readyLimit))
	defer cancel()
	how := sandbox.How{User: "alice", Dir: sandbox.Workdir}
	code, err := s.Attach(ctx, "login", how, sandbox.Streams{Stdout: os.Stdout, Stderr: os.Stderr}, "sh", "-c", line)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	if err != nil {
		return fmt.Errorf("cannot run %q on the login pod: %w", line, err)
	}
	return nil
}

// restPath is one that slurmrestd of every version here has.
const restPath = "/slurm/v0.0.42/ping"

// tryREST asks slurmrestd with a token of alice's.
func tryREST(ctx context.Context, s *sandbox.Sandbox) error {
	token, said, code, err := s.Exec(ctx, sandbox.Slurmctld, "scontrol", "token", "username="+sandbox.User, "lifespan=60")
	if err != nil || code != 0 {
		return fmt.Errorf("cannot get a token: %s %w", said, err)
	}
	address := fmt.Sprintf("http://%s:%d%s", sandbox.Slurmrestd, sandbox.RESTPort, restPath)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("cannot ask slurmrestd: %w", err)
	}
	request.Header.Set("X-SLURM-USER-TOKEN", strings.TrimPrefix(strings.TrimSpace(token), "SLURM_JWT="))
	response, err := s.HTTP().Do(request)
	if err != nil {
		return fmt.Errorf("cannot ask slurmrestd: %w", err)
	}
	defer response.Body.Close()
	fmt.Printf("\nGET %s, with the token of \"scontrol token username=%s\": %s\n", address, sandbox.User, response.Status)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("cannot ask slurmrestd: %s", response.Status)
	}
	return nil
}
