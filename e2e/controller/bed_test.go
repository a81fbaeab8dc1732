//go:build e2e

// Package controller tries slurmlet-controller against a real etcd and kube-apiserver, with RBAC and
// with exactly the rights that charts/slurmlet gives. The test is the kubelet: it makes pods through the
// API, patches their status, and puts the tokens and the certificate authority where agents read them.
// It runs in namespaces of its own (e2e/testbed/native).
package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/daemon"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/pki"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
)

// settings are what the test outside tells the one inside the namespaces.
type settings struct {
	Args                     []string
	Programs, Helm, Binaries string
	// Workloads has the controllers of JobSet and LeaderWorkerSet, and what they define.
	Workloads string
	Roots     map[string]string // with Slurm, by its version
	// Full has all that there is to test.
	Full bool
}

// given are the settings of the test that runs.
var given settings

// TestMain runs the tests again, as PID 1 of namespaces in which all processes end with them.
func TestMain(m *testing.M) {
	native.Run(func(s settings) error {
		given, os.Args = s, s.Args
		for _, entry := range os.Environ() { // the controller refuses what it does not know
			if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "SLURMLET_") {
				os.Unsetenv(name)
			}
		}
		if code := m.Run(); code != 0 {
			return errors.New("tests failed")
		}
		return nil
	})
	if listed() {
		os.Exit(m.Run())
	}
	if err := enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// listed says that somebody only asks which tests there are.
func listed() bool {
	for _, arg := range os.Args {
		if strings.HasPrefix(arg, "-test.list") {
			return true
		}
	}
	return false
}

func enter() error {
	limit := 38 * time.Minute
	if os.Getenv("SLURMLET_E2E_FULL") != "" {
		limit = 4 * time.Hour
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	binaries, err := native.FindSlurmlet("../../bin/slurmlet-controller")
	if err != nil {
		return err
	}
	programs, err := parts.Kube(ctx, native.Progress)
	if err != nil {
		return err
	}
	workloads, err := parts.Workloads(ctx, native.Progress)
	if err != nil {
		return err
	}
	helm := os.Getenv("HELM")
	if helm == "" {
		return errors.New("HELM is not set: run make controller")
	}
	roots := map[string]string{}
	for _, version := range parts.Versions() {
		if roots[version], err = parts.Root(ctx, version, native.Progress); err != nil {
			return err
		}
	}
	return native.Enter(ctx, settings{os.Args, programs, helm, filepath.Dir(binaries), workloads, roots, os.Getenv("SLURMLET_E2E_FULL") != ""})
}

// hosts counts beds. Each has an address on the loopback interface, and a port for its kube-apiserver, which does not
// serve there.
var hosts atomic.Int64

// home is the controller's namespace, and its name everywhere.
const home = "slurmlet"

// bed is a control plane, with what charts/slurmlet installs of rights.
type bed struct {
	*testing.T            // of the case that runs
	whole      *testing.T // until whose end all programs run
	dir        string
	host, api  string // where etcd and the controllers are, and kube-apiserver
	kube       kubernetes.Interface
	apiserver  *daemon.Daemon
	accounts   []byte // the key of service accounts' tokens, in PEM
	authority  *pki.Authority
	replicas   []*replica
	// started are all replicas that there ever were.
	started int
}

func newBed(t *testing.T, values ...string) *bed { return newBedWith(t, []string{home}, values...) }

// newBedWith makes one with the namespaces in which the values give rights.
func newBedWith(t *testing.T, namespaces []string, values ...string) *bed {
	b := &bed{T: t, whole: t, dir: t.TempDir()}
	b.startPlane()
	for _, name := range namespaces {
		b.namespace(name)
	}
	b.install(values...)
	return b
}

// startPlane starts etcd and kube-apiserver with the flags of e2e/testbed/kubecluster, and more of the latter.
func (b *bed) startPlane(more ...string) {
	n := hosts.Add(1)
	port := strconv.FormatInt(6443+n, 10)
	b.host, b.api = fmt.Sprintf("127.0.1.%d", n), net.JoinHostPort(native.Address, port)
	var err error
	b.authority, err = pki.New("bed")
	require.NoError(b, err)
	server, err := b.authority.Server("kubernetes", native.Address)
	require.NoError(b, err)
	b.accounts, err = pki.Key()
	require.NoError(b, err)
	admin, err := b.authority.Kubeconfig("https://"+b.api, "admin", "system:masters")
	require.NoError(b, err)
	for name, text := range map[string][]byte{
		"authority.crt": b.authority.Certificate, "apiserver.crt": server.Certificate, "apiserver.key": server.Key, "accounts.key": b.accounts, "admin": admin,
	} {
		require.NoError(b, os.WriteFile(b.file(name), text, 0o600))
	}
	store, members := "http://"+net.JoinHostPort(b.host, "2379"), "http://"+net.JoinHostPort(b.host, "2380")
	etcd := &daemon.Daemon{Name: "etcd", Env: []string{daemon.RareGC}, Args: []string{
		"--data-dir", b.file("etcd"), "--unsafe-no-fsync", "--log-level", "warn", "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", members, "--initial-advertise-peer-urls", members, "--initial-cluster", "default=" + members,
	}}
	b.apiserver = &daemon.Daemon{Name: "kube-apiserver", Env: []string{daemon.RareGC}, Args: []string{
		"--etcd-servers", store, "--bind-address", native.Address, "--advertise-address", native.Address, "--secure-port", port,
		"--tls-cert-file", b.file("apiserver.crt"), "--tls-private-key-file", b.file("apiserver.key"), "--client-ca-file", b.file("authority.crt"),
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--service-cluster-ip-range", "10.96.0.0/16", "--allow-privileged", "--enable-aggregator-routing", "--service-account-issuer", issuer, "--service-account-issuer", formerIssuer,
		"--service-account-key-file", b.file("accounts.key"), "--service-account-signing-key-file", b.file("accounts.key"),
	}}
	b.apiserver.Args = append(b.apiserver.Args, more...)
	for _, d := range []*daemon.Daemon{etcd, b.apiserver} {
		b.start(d, filepath.Join(given.Programs, d.Name))
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.file("admin"))
	require.NoError(b, err)
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	b.kube, err = kubernetes.NewForConfig(config)
	require.NoError(b, err)
	b.awaitAPI()
}

// issuer is that of the service accounts' tokens, and formerIssuer one before it, whose tokens Kubernetes still takes.
const issuer, formerIssuer = "https://kubernetes.default.svc.cluster.local", "https://former.example"

// awaitAPI: kube-apiserver takes some seconds of CPU to start.
func (b *bed) awaitAPI() {
	b.eventually(3*patience, "the API is ready", func() bool {
		text, err := b.kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(b.Context())
		return err == nil && string(text) == "ok"
	})
}

func (b *bed) write(path string, text []byte) {
	b.Helper()
	require.NoError(b, os.WriteFile(path, text, 0o600))
}

func (b *bed) file(name string) string { return filepath.Join(b.dir, name) }

// start starts a program until the test's end, and shows the end of its log if the test fails.
func (b *bed) start(d *daemon.Daemon, path string) {
	d.Path, d.Logs = path, b.dir
	require.NoError(b, d.Start())
	b.whole.Cleanup(func() {
		_ = d.Stop(5 * time.Second) // it may have ended
		if b.whole.Failed() {
			text, _ := os.ReadFile(b.file(d.Name + ".log"))
			b.whole.Logf("the end of the log of %s:\n%s", d.Name, text[max(0, len(text)-8000):])
		}
	})
}

// patience is for what takes a second on an idle machine. Guests and compilers run beside these tests.
const patience = 3 * time.Minute

// atOnce is sooner than anything that the controller does in turns.
const atOnce = 10 * time.Second

// eventually waits for a condition.
func (b *bed) eventually(limit time.Duration, what string, condition func() bool) {
	b.Helper()
	for end := time.Now().Add(limit); !condition(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// namespace makes one, with the ServiceAccount that kube-controller-manager would make.
func (b *bed) namespace(name string) {
	_, err := b.kube.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(b, err)
	_, err = b.kube.CoreV1().ServiceAccounts(name).Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(b, err)
}

// install applies the ServiceAccount and the rights of charts/slurmlet, and what bounds them.
func (b *bed) install(values ...string) {
	b.Helper()
	b.apply("rbac", values...)
	if !slices.ContainsFunc(values, func(value string) bool { return strings.Contains(value, "admissionPolicy.enabled=false") }) {
		b.installPolicy(values...)
	}
}

// installPolicy applies what bounds the rights, and waits until the API server holds to it.
func (b *bed) installPolicy(values ...string) {
	b.Helper()
	b.apply("policy", values...)
	config, err := clientcmd.BuildConfigFromFlags("", b.file("admin"))
	require.NoError(b, err)
	config.Impersonate.UserName = "system:serviceaccount:" + home + ":" + home
	api, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	b.eventually(patience, "the policy holds", func() bool {
		_, err := api.CoreV1().Secrets(home).Create(b.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "not-allowed"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "denied request")
	})
}

// apply makes the objects of one of the chart's templates.
func (b *bed) apply(template string, values ...string) {
	b.Helper()
	args := append([]string{"template", home, "../../charts/slurmlet", "--namespace", home, "--set", "image.registry=registry.example/slurmlet", "--kube-version", "1.37.1", "--show-only", "templates/" + template + ".yaml"}, values...)
	render := exec.CommandContext(b.Context(), given.Helm, args...)
	var said bytes.Buffer
	render.Stderr = &said
	text, err := render.Output()
	require.NoError(b, err, said.String())
	client := b.objects()
	resources := map[string]string{
		"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
		"MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
		"ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<10); ; {
		var object unstructured.Unstructured
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(b, err)
		kind := object.GroupVersionKind()
		_, err = client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resources[kind.Kind]}).
			Namespace(object.GetNamespace()).Create(b.Context(), &object, metav1.CreateOptions{})
		require.NoError(b, err)
	}
}

// objects is a client for objects of any kind, without bounds.
func (b *bed) objects() dynamic.Interface {
	config, err := clientcmd.BuildConfigFromFlags("", b.file("admin"))
	require.NoError(b, err)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	require.NoError(b, err)
	return client
}

// token makes one of a service account, bound to a pod if there is one.
func (b *bed) token(namespace, account string, pod *corev1.Pod, audiences ...string) string {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := b.kube.CoreV1().ServiceAccounts(namespace).CreateToken(b.Context(), account, request, metav1.CreateOptions{})
	require.NoError(b, err)
	return answer.Status.Token
}

// replica is a slurmlet-controller.
type replica struct {
	*daemon.Daemon
	b             *bed
	peers, health string // addresses
}

// replica starts one, with the chart's service account and more variables of its environment.
func (b *bed) replica(environ ...string) *replica {
	n := b.started
	b.started++
	r := &replica{b: b, peers: fmt.Sprintf("%s:%d", b.host, 9000+n), health: fmt.Sprintf("%s:%d", b.host, 9100+n)}
	b.replicas = append(b.replicas, r)
	name := fmt.Sprintf("slurmlet-%d", n)
	require.NoError(b, os.WriteFile(b.file(name+".kubeconfig"), b.kubeconfig(b.token(home, home, nil, issuer)), 0o600))
	r.Daemon = &daemon.Daemon{Name: name, Env: append([]string{
		"KUBECONFIG=" + b.file(name+".kubeconfig"), "SLURMLET_NAMESPACE=" + home, "SLURMLET_POD_NAME=" + name,
		"SLURMLET_PEERS_ADDRESS=" + r.peers, "SLURMLET_HEALTH_ADDRESS=" + r.health,
	}, environ...)}
	b.start(r.Daemon, filepath.Join(given.Binaries, "slurmlet-controller"))
	return r
}

func (b *bed) kubeconfig(token string) []byte {
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": "https://" + b.api, "certificate-authority": b.file("authority.crt")}}},
		"users":    []any{map[string]any{"name": "c", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "c"}}},
	}
	text, err := json.Marshal(config)
	require.NoError(b, err)
	return text
}

// ready waits until Kubernetes would lead agents to the replica.
func (r *replica) ready() {
	r.b.Helper()
	r.b.eventually(patience, r.Name+" is ready", func() bool { return r.get("/readyz") == "200" })
}

// get asks the health port: "200" alone, or the status and the text.
func (r *replica) get(path string) string {
	conn, err := net.Dial("tcp", r.health)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	text, _ := io.ReadAll(conn)
	_, answer, _ := strings.Cut(string(text), " ")
	code, rest, _ := strings.Cut(answer, " ")
	_, body, _ := strings.Cut(rest, "\r\n\r\n")
	return strings.TrimSpace(code + " " + strings.TrimSpace(body))
}

// metric is the value of one, without labels or with those that the name has.
func (r *replica) metric(name string) float64 {
	for line := range strings.Lines(r.get("/metrics")) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			var v float64
			_, err := fmt.Sscan(value, &v)
			require.NoError(r.b, err)
			return v
		}
	}
	return -1
}

// leads says whether the replica is the leader.
func (r *replica) leads() bool { return r.metric("slurmlet_controller_leader") == 1 }

func (r *replica) log() string {
	text, err := os.ReadFile(r.b.file(r.Name + ".log"))
	require.NoError(r.b, err)
	return string(text)
}

func gone(err error) bool { return err == nil || apierrors.IsNotFound(err) }
