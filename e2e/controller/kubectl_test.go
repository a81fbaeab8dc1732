//go:build e2e

package controller

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubectlHome is the namespace of the clusters that kubectl slurm is to find.
const kubectlHome = "kubectl"

// kubectlSlurm runs the program as a user whom the administrator impersonates, and returns what it prints and its status.
func (b *bed) kubectlSlurm(user string, args ...string) (string, int) {
	b.Helper()
	args = append([]string{"--kubeconfig", b.file("admin")}, args...)
	if user != "" {
		args = append(args, "--as", user)
	}
	command := exec.CommandContext(b.Context(), filepath.Join(given.Binaries, "kubectl-slurm"), args...)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		require.NoError(b, err)
	}
	return string(out), command.ProcessState.ExitCode()
}

// labelled makes a pod of a cluster, without a kubelet behind it.
func (b *bed) labelled(cluster, role, name string, status corev1.PodStatus) {
	pod, err := b.kube.CoreV1().Pods(kubectlHome).Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"slurmlet.dev/cluster": cluster, "slurmlet.dev/role": role, "slurmlet.dev/node-set": "cpu"}},
		Spec:       corev1.PodSpec{NodeName: "machine", Containers: []corev1.Container{{Name: role, Image: "x"}}},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	pod.Status = status
	_, err = b.kube.CoreV1().Pods(kubectlHome).UpdateStatus(b.Context(), pod, metav1.UpdateOptions{})
	require.NoError(b, err)
}

// grant gives somebody rights in the namespace.
func (b *bed) grant(name string, who rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	_, err := b.kube.RbacV1().Roles(kubectlHome).Create(b.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	require.NoError(b, err)
	_, err = b.kube.RbacV1().RoleBindings(kubectlHome).Create(b.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{who},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
}

// core is a rule of the core group, whose resource and verb are as kubectl auth can-i has them: "list pods".
func core(right string) rbacv1.PolicyRule {
	verb, resource, _ := strings.Cut(right, " ")
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}}
}

// kubectlRights: kubectl slurm finds clusters by their labels, and names the right that the caller lacks.
func kubectlRights(b *bed) {
	b.namespace(kubectlHome)
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	pulling := corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "slurmd", Image: "registry.example/none", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such host"}},
	}}}
	b.labelled("a", "slurmctld", "a-slurmctld-0", running)
	b.labelled("a", "slurmd", "a-cpu-0", pulling)
	b.labelled("b", "slurmctld", "b-slurmctld-0", running)
	b.grant("reader", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}, core("get pods"), core("list pods"))
	b.eventually(patience, "the reader may list pods", func() bool {
		said, _ := b.kubectlSlurm("reader", "status", "-n", kubectlHome, "--cluster", "a")
		return len(said) > 0 && said[0] == 'C'
	})
	for _, one := range []struct {
		name, user string
		args       []string
		status     int
		says       []string
	}{
		{"no rights at all", "nobody", []string{"status", "-n", kubectlHome}, 1, []string{"you may not list pods in namespace kubectl (kubectl auth can-i list pods -n kubectl)"}},
		{"several clusters", "reader", []string{"status", "-n", kubectlHome}, 1, []string{"namespace kubectl has several clusters: choose one with --cluster: a, b"}},
		{"another cluster", "reader", []string{"status", "-n", kubectlHome, "--cluster", "c"}, 1, []string{"namespace kubectl has no cluster c: it has a, b"}},
		{"another namespace, for who may see all", "", []string{"status", "-n", "default"}, 1, []string{"namespace default has no pod with the label slurmlet.dev/cluster: choose one with -n: ", kubectlHome}},
		{"status without exec", "reader", []string{"status", "-n", kubectlHome, "--cluster", "a"}, 0, []string{
			"Cluster a in namespace kubectl", "nodes cpu", "0 of 1 Ready",
			"you may not create pods/exec in namespace kubectl (kubectl auth can-i create pods/exec -n kubectl)", "you may not get pods/proxy in namespace kubectl (kubectl auth can-i get pods/proxy -n kubectl)",
		}},
		{"a job without exec", "reader", []string{"why", "5", "-n", kubectlHome, "--cluster", "a"}, 1, []string{"you may not create pods/exec in namespace kubectl"}},
		{"a node by Kubernetes alone", "reader", []string{"why", "a-cpu-0", "-n", kubectlHome, "--cluster", "a"}, 0, []string{
			"The image registry.example/none cannot be pulled (ImagePullBackOff): no such host", "you may not create pods/exec", "you may not get nodes in the whole cluster (kubectl auth can-i get nodes)", "you may not list events in namespace kubectl",
		}},
		{"a node that is not there", "reader", []string{"ssh", "a-cpu-1", "-n", kubectlHome, "--cluster", "a"}, 1, []string{"no pod of the cluster a has the name a-cpu-1. Did you mean a-cpu-0?"}},
		{"a drain", "reader", []string{"drain", "a-cpu-0", "--reason", "x", "-n", kubectlHome, "--cluster", "a"}, 1, []string{"you may not create pods/exec"}},
		{"a log", "reader", []string{"logs", "slurmctld", "-n", kubectlHome, "--cluster", "a"}, 1, []string{"you may not get pods/log in namespace kubectl"}},
		{"a shell", "reader", []string{"login", "alice", "-n", kubectlHome, "--cluster", "a"}, 1, []string{"the cluster a has no login pod"}},
		{"a verb that is none", "", []string{"drian"}, 64, []string{"Did you mean this?", "drain"}},
	} {
		said, status := b.kubectlSlurm(one.user, one.args...)
		assert.Equal(b, one.status, status, "%s: %s", one.name, said)
		for _, says := range one.says {
			assert.Contains(b, said, says, one.name)
		}
	}
	b.completes()
	b.lackingOne()
}

// rightsOf are the rights that each command asks for in the namespace, as docs/run/kubectl-slurm.md has them. A command
// whose status is 0 without the right answers with what it may know, and says what it could not ask.
var rightsOf = []struct {
	command string
	rights  map[string]int
}{
	{"status", map[string]int{"list pods": 1, "create pods/exec": 0}},
	{"why 5", map[string]int{"list pods": 1, "create pods/exec": 1}},
	{"why a-cpu-0", map[string]int{"list pods": 1, "create pods/exec": 0, "list events": 0, "get nodes": 0}},
	{"logs slurmctld", map[string]int{"list pods": 1, "get pods/log": 1}},
	{"logs 5", map[string]int{"list pods": 1, "create pods/exec": 1}},
	{"login", map[string]int{"list pods": 1, "create pods/exec": 1}},
	{"login alice -- id", map[string]int{"list pods": 1, "create pods/exec": 1}},
	{"ssh a-cpu-1 -- id", map[string]int{"list pods": 1, "get pods": 1, "create pods/exec": 1}},
	{"drain a-cpu-1 --reason x", map[string]int{"list pods": 1, "get pods": 1, "create pods/exec": 1}},
	{"resume a-cpu-1", map[string]int{"list pods": 1, "get pods": 1, "create pods/exec": 1}},
}

// lackingOne: a service account with all rights but one learns which one it is.
func (b *bed) lackingOne() {
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	b.labelled("a", "login", "a-login-0", ready)
	b.labelled("a", "slurmd", "a-cpu-1", ready)
	all := []string{"list pods", "get pods", "create pods/exec", "get pods/proxy", "get pods/log", "list events", "get nodes"}
	_, err := b.kube.RbacV1().ClusterRoles().Create(b.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubectl-nodes"}, Rules: []rbacv1.PolicyRule{core("get nodes")}}, metav1.CreateOptions{})
	require.NoError(b, err)
	var everywhere []rbacv1.Subject
	account := func(lacking string) string {
		return "without-" + strings.NewReplacer(" ", "-", "/", "-").Replace(lacking)
	}
	for _, lacking := range all {
		subject := rbacv1.Subject{Kind: "ServiceAccount", Name: account(lacking), Namespace: kubectlHome}
		var rules []rbacv1.PolicyRule
		for _, right := range all {
			if right != lacking {
				rules = append(rules, core(right))
			}
		}
		b.grant(subject.Name, subject, rules...)
		if lacking != "get nodes" {
			everywhere = append(everywhere, subject)
		}
	}
	_, err = b.kube.RbacV1().ClusterRoleBindings().Create(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubectl-nodes"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kubectl-nodes"}, Subjects: everywhere,
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	b.eventually(patience, "the last of them has its rights", func() bool {
		said, _ := b.kubectlSlurm("system:serviceaccount:"+kubectlHome+":"+account("get nodes"), "why", "a-cpu-0", "-n", kubectlHome, "--cluster", "a")
		return strings.Contains(said, "cannot be pulled")
	})
	for _, one := range rightsOf {
		for right, status := range one.rights {
			args, command, has := strings.Cut(one.command, " -- ")
			words := append(strings.Fields(args), "-n", kubectlHome, "--cluster", "a", "--as", "system:serviceaccount:"+kubectlHome+":"+account(right))
			if has {
				words = append(words, "--", command)
			}
			said, saw := b.kubectlSlurm("", words...)
			where := " in namespace " + kubectlHome + " (kubectl auth can-i " + right + " -n " + kubectlHome + ")"
			if right == "get nodes" {
				where = " in the whole cluster (kubectl auth can-i get nodes)"
			}
			assert.Contains(b, said, "you may not "+right+where, "%s without %s", one.command, right)
			assert.Equal(b, status, saw, "%s without %s: %s", one.command, right, said)
		}
	}
}

// completes: kubectl runs kubectl_complete-slurm, a link to the program.
func (b *bed) completes() {
	link := filepath.Join(b.TempDir(), "kubectl_complete-slurm")
	require.NoError(b, os.Symlink(filepath.Join(given.Binaries, "kubectl-slurm"), link))
	out, err := exec.CommandContext(b.Context(), link, "--kubeconfig", b.file("admin"), "-n", kubectlHome, "--cluster", "a", "ssh", "").Output()
	require.NoError(b, err)
	assert.Contains(b, string(out), "a-cpu-0\n")
}
