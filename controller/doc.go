// Package controller is slurmlet's controller: it tells the agents of each cluster what Kubernetes
// knows, and a cluster works without it.
//
// Its settings are environment variables. The controller reports every fault in them at its start,
// all together, and exits with status 78.
//
//	SLURMLET_LOG_LEVEL        debug, info, warn or error (info)
//	SLURMLET_NAMESPACE        the controller's own namespace, which has its Lease; required
//	SLURMLET_POD_NAME         the controller's own pod, which is its name in the Lease; required
//	SLURMLET_NAMESPACES       the namespaces that may have clusters, separated by commas: it looks at and writes to no others (all)
//	SLURMLET_HEALTH_ADDRESS   where it answers /livez, /readyz and /metrics (:8080)
//	SLURMLET_PEERS_ADDRESS    where it serves the agents' streams, with TLS (:8443)
//	SLURMLET_SERVICE          the name of the Service that leads there (slurmlet)
//	SLURMLET_CLUSTER_DOMAIN   the DNS domain of the Kubernetes cluster (cluster.local)
//	SLURMLET_WEBHOOK          the name of the MutatingWebhookConfiguration for injections, whose certificates the controller keeps; default: none, and no injections
//	SLURMLET_WEBHOOK_ADDRESS  where it answers the API server, with TLS (:9443)
//	SLURMLET_PEERS            SLURMLET_PEERS of injected pods, which is the Service's host:port; with SLURMLET_WEBHOOK; required
//	SLURMLET_PEERS_CLUSTER_IPS addresses of that host for the pods' /etc/hosts, separated by commas; default: none, and they ask DNS
//	SLURMLET_AGENT_IMAGE      the agent's image; with SLURMLET_WEBHOOK; required
//	SLURMLET_AGENT_PULL_POLICY how the kubelet gets it: Always, IfNotPresent or Never (IfNotPresent)
//	SLURMLET_AGENT_VOLUME     how it comes into a pod: an emptyDir that an init container fills, or an image volume: emptyDir or image (emptyDir)
//	SLURMLET_INJECT_CLUSTER   the cluster of pods that name none; default: none, and they are refused
//	SLURMLET_INJECT_GRACE_PERIOD what a slurmd's pod gets in place of Kubernetes' 30 s (24h)
//	SLURMLET_INJECT_RUNTIME_CLASS the runtime class of slurmd's pods that have none; default: none
//	SLURMLET_CA_LIFETIME      how long a certificate authority lives; the next one is made at two thirds (8760h)
//	SLURMLET_MACHINE_LABELS   labels of Kubernetes nodes that agents are told, as in topology.kubernetes.io/* (none)
//	SLURMLET_MACHINE_FEATURES Slurm's features made of labels, as in zone-{topology.kubernetes.io/zone} (none)
//	SLURMLET_MACHINE_TOPOLOGY Slurm's topology made of labels, as in default:{example.com/rack} (none)
//	SLURMLET_MACHINE_WEIGHT   Slurm's weight made of labels; the first one of the list that fits (none)
//	SLURMLET_DRAIN_TAINTS     taints of a Kubernetes node that drain its Slurm nodes: key[=value][:effect] (usual)
//	SLURMLET_DRAIN_CONDITIONS conditions that do: type[=status] (usual)
//	SLURMLET_CORDON           whether a Slurm node that somebody drains marks its Kubernetes node: off, cordon or taint (off)
//	SLURMLET_CORDON_NAMESPACES the namespaces whose clusters' drains do that, separated by commas; SLURMLET_CORDON needs one (none)
//	SLURMLET_SCALE_IN         whether pods are marked as busy and idle (true)
//	SLURMLET_SAFE_TO_EVICT    whether the cluster autoscaler's annotation is one of the marks (false)
//	SLURMLET_ROLL             whether pods of old revisions are replaced where sets ask for it (true)
//	SLURMLET_ELASTIC          where pods of elastic node sets are made: all, or namespaces separated by commas (none)
//	SLURMLET_ELASTIC_QPS      how many of these pods are made or deleted in a second (50)
//	SLURMLET_ELASTIC_BURST    how many at once (100)
//	SLURMLET_BRIDGE           whether pods of namespaces with the label slurmlet.dev/bridge=true wait in Slurm's queue (false)
//	SLURMLET_BRIDGE_NAMESPACES of which of them: all, or namespaces separated by commas (all)
//	SLURMLET_BRIDGE_QPS       how many of these pods are put on nodes or deleted in a second (100)
//	SLURMLET_CONFIG_MAPS      ConfigMaps of slurmctlds' pods that kubelets deliver at once: namespace/name, separated by commas (none)
//	KUBECONFIG                a file that leads to Kubernetes; a pod's service account needs none
//
// The lists are separated by commas. A template takes a label as {key}, or as {key|value=word|*=word} with
// words in place of its values; one whose label is missing makes no word. "usual" stands for the taints and
// conditions of the usual handlers, and more may follow it.
//
// All replicas work, and one of them, the leader, also writes. The Lease "slurmlet-controller" in
// the controller's namespace names the leader.
//
// The log is one JSON object a line, as the agents' is. The exit status is 0 after SIGTERM, 1 after
// a failure, 64 after a wrong argument, and 78 after a wrong setting.
package controller
