// Package inject gives slurmlet to pods whose image has Slurm and no slurmlet: the API server sends
// a new pod that has the annotation slurmlet.dev/inject, and gets back what to add to it.
//
// # Annotations of a pod
//
//	slurmlet.dev/inject            what the container becomes: slurmctld, slurmd, login, slurmdbd or slurmrestd
//	slurmlet.dev/container         the container that gets the agent (required if there are several)
//	slurmlet.dev/cluster           the cluster (default: the label of this name, or the controller's setting)
//	slurmlet.dev/node-set          the node set (slurmd; default: the label of this name, or none)
//	slurmlet.dev/slurmctld         slurmctld's host[:port], several separated by commas (slurmd, login; default: <cluster>-slurmctld:6817)
//	slurmlet.dev/keys              the Secret with slurm.key or slurm.jwks, which the pod gets at /etc/slurm, or "none"
//	                               (slurmd, login; default: <cluster>-keys, unless the container mounts something there)
//	slurmlet.dev/cgroup            SLURMLET_CGROUP: require, prefer or off (slurmd)
//	slurmlet.dev/security-context  "slurmlet": the container gets the capabilities that its role needs, and no others
//
// The defaults are the names that charts/slurm makes.
//
// # What the pod gets
//
//   - the agent's program at /opt/slurmlet, by an init container and an emptyDir, or by an image volume
//   - the command "slurmlet ROLE". The webhook cannot read the image's ENTRYPOINT, and does not need it:
//     the agent finds the role's daemon in the image's PATH, or at SLURMLET_DAEMON
//   - the environment, ports, probes and volumes that charts/slurm gives to a pod of the role
//   - the token and the CA for the controller, if the controller has an address
//   - the labels slurmlet.dev/cluster, /role and /node-set, by which peers know the pod
//   - the role's terminationGracePeriodSeconds, if the pod's is 30, which is Kubernetes' default
//
// Where the API server has no MutatingAdmissionPolicy (Kubernetes before 1.36), the webhook also has pods wait in
// Slurm's queue: [QueuePath].
//
// What the pod has of its own stays: environment, probes, mounts, ports, security contexts, labels,
// and all other containers. The webhook refuses a pod where both cannot be. It replaces only the
// container's command and arguments, and says so.
package inject
