package inject

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// Settings are what the controller knows and a pod does not say.
type Settings struct {
	// Image is the agent's, and PullPolicy how the kubelet gets it.
	Image      string
	PullPolicy corev1.PullPolicy
	// ImageVolume mounts the image in place of the init container and its emptyDir (Kubernetes 1.33
	// with the feature gate ImageVolume, which newer versions have on).
	ImageVolume bool
	// Cluster is that of pods that name none; empty: they are refused.
	Cluster string
	// Peers is the controller's host:port for agents, and Authority the ConfigMap with ca.crt in the
	// pod's namespace. Empty: the pods get neither.
	Peers, Authority string
	// PeersClusterIPs are the addresses of Peers, which pods need while DNS is away; nil: DNS has them.
	PeersClusterIPs []netip.Addr
	// GracePeriod takes the place of a slurmd's 30 s, in seconds; 0: the role's own.
	GracePeriod int64
	// RuntimeClass makes the cgroup of slurmd's containers writable; empty: pods keep their own.
	RuntimeClass string
}

// Result is a pod with the agent.
type Result struct {
	Pod *corev1.Pod
	// Did says what is new in the pod, and what a user should know: one sentence each.
	Did []string
}

// Pod puts the agent into a pod whose annotation asks for it. It leaves any other pod alone, and one
// that has the agent. The errors name each field that is in the way.
func Pod(pod *corev1.Pod, s Settings) (*Result, field.ErrorList) {
	if _, asked := pod.Annotations[wellknown.Inject]; !asked {
		return &Result{Pod: pod}, nil
	}
	r, faults := read(pod, s)
	if len(faults) > 0 {
		return nil, faults
	}
	if _, marked := pod.Annotations[wellknown.Injected]; marked {
		if faults := missing(pod, r); len(faults) > 0 {
			return nil, faults
		}
		return &Result{Pod: pod}, nil
	}
	i := &injection{Settings: s, request: r, pod: pod.DeepCopy()}
	i.target = &i.pod.Spec.Containers[r.container]
	i.at = containerPath(pod, r.container)
	if i.refuse(); len(i.faults) == 0 {
		i.inject()
	}
	if len(i.faults) > 0 {
		return nil, i.faults
	}
	return &Result{Pod: i.pod, Did: i.did}, nil
}

// gate keeps a pod from a machine until the webhook takes it away. A template has it so that no pod
// starts where the webhook is not.
const gate = wellknown.Inject

// injection is the work on one pod.
type injection struct {
	Settings
	request
	pod    *corev1.Pod
	target *corev1.Container
	at     *field.Path // the target's
	did    []string
	faults field.ErrorList
}

// say keeps to what a warning of Kubernetes may have.
func (i *injection) say(format string, values ...any) {
	const most = 250
	text := fmt.Sprintf(format, values...)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("…")], "") + "…"
	}
	i.did = append(i.did, text)
}

// mostFaults are as many as somebody reads. Kubernetes joins them in a time that grows with their square.
const mostFaults = 20

func (i *injection) fault(err *field.Error) {
	if len(i.faults) < mostFaults {
		i.faults = append(i.faults, err)
	}
}

func (i *injection) inject() {
	i.say("container %s runs slurmlet %s in place of the image's own command", i.target.Name, i.role.name)
	i.setLabels()
	i.setGracePeriod()
	i.bringProgram()
	i.setCommand()
	i.addVolumes()
	i.addEnvironment()
	i.addHostAliases()
	i.addPorts()
	i.addProbes()
	i.setCgroup()
	i.setSecurity()
	i.openGate()
	i.advise()
	// Another webhook may add containers after this one, which the API server then asks again.
	put(&i.pod.Annotations, wellknown.Container, i.target.Name)
	put(&i.pod.Annotations, wellknown.Injected, strings.Join(i.did, "; "))
}

// containerPath names a container, unless its name is longer than Kubernetes allows: each fault repeats it.
func containerPath(pod *corev1.Pod, n int) *field.Path {
	path, name := field.NewPath("spec", "containers"), pod.Spec.Containers[n].Name
	if len(name) > validation.DNS1123LabelMaxLength {
		return path.Index(n)
	}
	return path.Key(name)
}

// refuse finds what the agent cannot live with.
func (i *injection) refuse() {
	spec, path := i.pod.Spec, field.NewPath("spec")
	if _, mirror := i.pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		i.fault(field.Forbidden(annotations.Key(wellknown.Inject), "the kubelet starts a static pod without asking the API server"))
	}
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		i.fault(field.Invalid(path.Child("os", "name"), spec.OS.Name, "the agent needs Linux"))
	}
	if spec.HostPID {
		i.fault(field.Invalid(path.Child("hostPID"), true, "the agent must be PID 1 of its container: want false"))
	}
	if spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		i.fault(field.Invalid(path.Child("shareProcessNamespace"), true, "the agent must be PID 1 of its container: want false"))
	}
	if i.role.root {
		i.refuseUsers()
	}
	if i.Peers != "" && i.role.root && spec.SecurityContext != nil && spec.SecurityContext.FSGroup != nil {
		i.fault(field.Invalid(path.Child("securityContext", "fsGroup"), *spec.SecurityContext.FSGroup,
			fmt.Sprintf("the kubelet would give the group the token of the agent, and users' processes run in a pod of role %s: leave it out", i.role.name)))
	}
}

// refuseUsers refuses any user but root.
func (i *injection) refuseUsers() {
	why := fmt.Sprintf("%s starts processes as their users, so it must be root", i.role.name)
	user, where := i.user()
	if user != nil && *user != 0 {
		i.fault(field.Invalid(where.Child("runAsUser"), *user, why+": want 0"))
	}
	if nonRoot, where := i.nonRoot(); nonRoot {
		i.fault(field.Invalid(where.Child("runAsNonRoot"), true, why+": want false"))
	}
}

// user is the user that the pod gives the target, and the security context that says so.
func (i *injection) user() (*int64, *field.Path) {
	if c := i.target.SecurityContext; c != nil && c.RunAsUser != nil {
		return c.RunAsUser, i.at.Child("securityContext")
	}
	if p := i.pod.Spec.SecurityContext; p != nil {
		return p.RunAsUser, field.NewPath("spec", "securityContext")
	}
	return nil, nil
}

func (i *injection) nonRoot() (bool, *field.Path) {
	if c := i.target.SecurityContext; c != nil && c.RunAsNonRoot != nil {
		return *c.RunAsNonRoot, i.at.Child("securityContext")
	}
	if p := i.pod.Spec.SecurityContext; p != nil && p.RunAsNonRoot != nil {
		return *p.RunAsNonRoot, field.NewPath("spec", "securityContext")
	}
	return false, nil
}

// setLabels makes the pod known to its peers.
func (i *injection) setLabels() {
	for _, label := range [][2]string{{wellknown.Cluster, i.cluster}, {wellknown.Role, i.role.name}, {wellknown.NodeSet, i.nodeSet}} {
		key, value := label[0], label[1]
		own, there := i.pod.Labels[key]
		switch {
		case value == "":
		case there && own != value:
			i.fault(field.Invalid(field.NewPath("metadata", "labels").Key(key), own, fmt.Sprintf("the annotations ask for %q: leave the label out", value)))
		case !there:
			put(&i.pod.Labels, key, value)
		}
	}
}

// addHostAliases lets the agent find the controller without DNS. The kubelet writes them into the pod's
// hosts file, and the agent leaves them there.
func (i *injection) addHostAliases() {
	host, _, err := net.SplitHostPort(i.Peers)
	if err != nil {
		return
	}
	for _, at := range i.PeersClusterIPs {
		own := slices.ContainsFunc(i.pod.Spec.HostAliases, func(a corev1.HostAlias) bool {
			return a.IP == at.String() && slices.Contains(a.Hostnames, host)
		})
		if !own {
			i.pod.Spec.HostAliases = append(i.pod.Spec.HostAliases, corev1.HostAlias{IP: at.String(), Hostnames: []string{host}})
		}
	}
}

// put makes the map where there is none.
func put(to *map[string]string, key, value string) {
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[key] = value
}

// kubernetesGrace is what the API server writes into a pod that says nothing.
const kubernetesGrace = 30

func (i *injection) setGracePeriod() {
	own := i.pod.Spec.TerminationGracePeriodSeconds
	if own != nil && *own != kubernetesGrace {
		return
	}
	grace := i.role.grace
	if i.role.name == "slurmd" {
		grace = cmp.Or(i.GracePeriod, grace)
	}
	i.pod.Spec.TerminationGracePeriodSeconds = &grace
	i.say("terminationGracePeriodSeconds is %d, not %d", grace, kubernetesGrace)
}

// Where the agent's program is in the target. A directory of the container's own image would hide
// what the image has there.
const (
	programDir = "/opt/slurmlet"
	program    = programDir + "/slurmlet"
)

// The names of what the pod gets.
const (
	installer     = "slurmlet-install"
	programVolume = "slurmlet"
)

// bringProgram adds the init container, or the image's volume. The target mounts it read-only,
// because users' processes share the container, and an emptyDir is everybody's.
func (i *injection) bringProgram() {
	source := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	if i.ImageVolume {
		source = corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: i.Image, PullPolicy: i.PullPolicy}}
	} else {
		i.addInstaller()
	}
	i.addVolume(programVolume, source)
	i.refuseBelow(programDir)
	i.target.VolumeMounts = append(i.target.VolumeMounts, corev1.VolumeMount{Name: programVolume, MountPath: programDir, ReadOnly: true})
}

func (i *injection) addInstaller() {
	for n, c := range i.pod.Spec.InitContainers {
		if c.Name == installer {
			i.fault(field.Invalid(field.NewPath("spec", "initContainers").Index(n).Child("name"), installer, "the webhook adds an init container of this name: rename it"))
		}
	}
	for n, c := range i.pod.Spec.Containers {
		if c.Name == installer {
			i.fault(field.Invalid(field.NewPath("spec", "containers").Index(n).Child("name"), installer, "the webhook adds an init container of this name: rename it"))
		}
	}
	// It comes first, because other init containers may wait for something.
	i.pod.Spec.InitContainers = slices.Insert(i.pod.Spec.InitContainers, 0, corev1.Container{
		Name:            installer,
		Image:           i.Image,
		ImagePullPolicy: i.PullPolicy,
		Command:         []string{"/slurmlet", "install", programDir},
		// What the target asks for, because the pod's quality of service, what it asks for in all, and a
		// namespace's quota are then what they were.
		Resources:                corev1.ResourceRequirements{Requests: computing(i.target.Resources.Requests), Limits: computing(i.target.Resources.Limits)},
		VolumeMounts:             []corev1.VolumeMount{{Name: programVolume, MountPath: programDir}},
		SecurityContext:          i.installerSecurity(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	})
}

// computing are the resources that a quota or a limit range may ask of every container.
func computing(list corev1.ResourceList) corev1.ResourceList {
	var some corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if amount, there := list[name]; there {
			if some == nil {
				some = corev1.ResourceList{}
			}
			some[name] = amount
		}
	}
	return some
}

// nobody runs the init container where the pod allows no root, and names no user.
const nobody int64 = 65534

// installerSecurity is within Pod Security's level "restricted", but for root. Its user is the
// target's, because the kubelet gives the token to a user that all containers share.
func (i *injection) installerSecurity() *corev1.SecurityContext {
	c := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if own := i.target.SecurityContext; own != nil {
		c.RunAsUser, c.RunAsGroup, c.RunAsNonRoot = own.RunAsUser, own.RunAsGroup, own.RunAsNonRoot
	}
	if nonRoot, _ := i.nonRoot(); nonRoot {
		if user, _ := i.user(); user == nil {
			c.RunAsUser = new(nobody)
		}
	}
	return c
}

// setCommand has the agent start the role's daemon, which it finds itself.
func (i *injection) setCommand() {
	if own := slices.Concat(i.target.Command, i.target.Args); len(own) > 0 && !slices.Equal(own, i.command()) {
		i.say("the container's own command and arguments are not run: SLURMLET_DAEMON and SLURMLET_DAEMON_ARGS name another daemon and its arguments")
	}
	i.target.Command, i.target.Args = i.command(), nil
}

func (i *injection) command() []string { return []string{program, i.role.name} }

// openGate lets the scheduler have the pod.
func (i *injection) openGate() {
	i.pod.Spec.SchedulingGates = slices.DeleteFunc(i.pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate })
	if len(i.pod.Spec.SchedulingGates) == 0 {
		i.pod.Spec.SchedulingGates = nil
	}
}

// missing finds what a pod lacks that says that it has the agent: somebody else took it away, or
// the annotation came with a copy. Other webhooks may have changed the rest, such as the image's registry.
func missing(pod *corev1.Pod, r request) (faults field.ErrorList) {
	target, spec := pod.Spec.Containers[r.container], field.NewPath("spec")
	at := containerPath(pod, r.container)
	want := "the annotation " + wellknown.Injected + " says that the pod has the agent: remove the annotation, or bring back "
	if command := []string{program, r.role.name}; !slices.Equal(target.Command, command) || len(target.Args) > 0 {
		faults = append(faults, field.Invalid(at.Child("command"), strings.Join(slices.Concat(target.Command, target.Args), " "), want+fmt.Sprintf("%q", command)))
	}
	mounted := slices.ContainsFunc(target.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == programVolume && m.MountPath == programDir && m.ReadOnly
	})
	if !mounted {
		faults = append(faults, field.Required(at.Child("volumeMounts"), want+"the volume "+programVolume+" at "+programDir))
	}
	installed := slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == installer })
	image := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == programVolume && v.Image != nil })
	if !installed && !image {
		faults = append(faults, field.Required(spec.Child("initContainers"), want+"the init container "+installer))
	}
	return faults
}
