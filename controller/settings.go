package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/internal/bridge"
	"github.com/slurmlet/slurmlet/controller/internal/cordon"
	"github.com/slurmlet/slurmlet/controller/internal/elastic"
	"github.com/slurmlet/slurmlet/controller/internal/inject"
	"github.com/slurmlet/slurmlet/controller/internal/machines"
	"github.com/slurmlet/slurmlet/controller/internal/namespaces"
	"github.com/slurmlet/slurmlet/controller/internal/refresh"
)

// Settings are the controller's, as its environment has them.
type Settings struct {
	LogLevel  slog.Level
	Namespace string
	PodName   string
	// Namespaces are those that may have clusters.
	Namespaces    namespaces.Set
	HealthAddress string
	// PeersAddress is where agents find their streams, and Service the name by which they know it.
	PeersAddress, Service, ClusterDomain string
	// Webhook is the name of the MutatingWebhookConfiguration; empty: nobody asks for injections.
	Webhook, WebhookAddress string
	// Inject is what injected pods get.
	Inject inject.Settings
	// AuthorityLifetime is how long a certificate authority is used.
	AuthorityLifetime time.Duration
	// Machines say what agents are told of their machines.
	Machines machines.Settings
	// Cordon says how a machine is marked whose node Slurm has drained, and whose drains do that.
	Cordon cordon.Settings
	// ScaleIn has pods marked as busy and idle, SafeToEvict with the cluster autoscaler's annotation, too. Roll
	// replaces pods of old revisions where sets ask for it.
	ScaleIn, SafeToEvict, Roll bool
	// Elastic says where pods of elastic node sets are made.
	Elastic elastic.Settings
	// Bridge has Kubernetes' pods wait in Slurm's queue.
	Bridge bridge.Settings
	// ConfigMaps are those whose changes kubelets deliver at once.
	ConfigMaps []types.NamespacedName
	// Kubeconfig is empty where the pod's service account leads to Kubernetes.
	Kubeconfig string
}

// variable is a line of the package comment as code.
type variable struct {
	name, fallback string
	parse          func(s *Settings, value string) error
}

var variables = []variable{
	{"SLURMLET_LOG_LEVEL", "info", func(s *Settings, v string) error { return s.LogLevel.UnmarshalText([]byte(v)) }},
	{"SLURMLET_NAMESPACE", "", func(s *Settings, v string) error { return set(&s.Namespace, v) }},
	{"SLURMLET_POD_NAME", "", func(s *Settings, v string) error { return set(&s.PodName, v) }},
	{"SLURMLET_NAMESPACES", "all", func(s *Settings, v string) (err error) { s.Namespaces, err = namespaces.Parse(v); return err }},
	{"SLURMLET_HEALTH_ADDRESS", ":8080", func(s *Settings, v string) error { return setAddress(&s.HealthAddress, v) }},
	{"SLURMLET_PEERS_ADDRESS", ":8443", func(s *Settings, v string) error { return setAddress(&s.PeersAddress, v) }},
	{"SLURMLET_SERVICE", "slurmlet", func(s *Settings, v string) error { return set(&s.Service, v) }},
	{"SLURMLET_CLUSTER_DOMAIN", "cluster.local", func(s *Settings, v string) error { return set(&s.ClusterDomain, v) }},
	{"SLURMLET_WEBHOOK", "", func(s *Settings, v string) error { s.Webhook = v; return nil }},
	{"SLURMLET_WEBHOOK_ADDRESS", ":9443", func(s *Settings, v string) error { return setAddress(&s.WebhookAddress, v) }},
	{"SLURMLET_PEERS", "", func(s *Settings, v string) error { s.Inject.Peers = v; return nil }},
	{"SLURMLET_PEERS_CLUSTER_IPS", "", func(s *Settings, v string) error { return setAddresses(&s.Inject.PeersClusterIPs, v) }},
	{"SLURMLET_AGENT_IMAGE", "", func(s *Settings, v string) error { s.Inject.Image = v; return nil }},
	{"SLURMLET_AGENT_PULL_POLICY", "IfNotPresent", func(s *Settings, v string) error { return setPullPolicy(&s.Inject.PullPolicy, v) }},
	{"SLURMLET_AGENT_VOLUME", "emptyDir", func(s *Settings, v string) error { return setImageVolume(&s.Inject.ImageVolume, v) }},
	{"SLURMLET_INJECT_CLUSTER", "", func(s *Settings, v string) error { s.Inject.Cluster = v; return nil }},
	{"SLURMLET_INJECT_GRACE_PERIOD", "24h", func(s *Settings, v string) error { return setSeconds(&s.Inject.GracePeriod, v) }},
	{"SLURMLET_INJECT_RUNTIME_CLASS", "", func(s *Settings, v string) error { s.Inject.RuntimeClass = v; return nil }},
	{"SLURMLET_CA_LIFETIME", "8760h", func(s *Settings, v string) error { return setLifetime(&s.AuthorityLifetime, v) }},
	{"SLURMLET_MACHINE_LABELS", "none", func(s *Settings, v string) error {
		return setRules(&s.Machines.Labels, v, func(m *machines.Settings) *string { return &m.Labels })
	}},
	{"SLURMLET_MACHINE_FEATURES", "none", func(s *Settings, v string) error {
		return setRules(&s.Machines.Features, v, func(m *machines.Settings) *string { return &m.Features })
	}},
	{"SLURMLET_MACHINE_TOPOLOGY", "none", func(s *Settings, v string) error {
		return setRules(&s.Machines.Topology, v, func(m *machines.Settings) *string { return &m.Topology })
	}},
	{"SLURMLET_MACHINE_WEIGHT", "none", func(s *Settings, v string) error {
		return setRules(&s.Machines.Weight, v, func(m *machines.Settings) *string { return &m.Weight })
	}},
	{"SLURMLET_DRAIN_TAINTS", "usual", func(s *Settings, v string) error {
		return setRules(&s.Machines.Taints, v, func(m *machines.Settings) *string { return &m.Taints })
	}},
	{"SLURMLET_DRAIN_CONDITIONS", "usual", func(s *Settings, v string) error {
		return setRules(&s.Machines.Conditions, v, func(m *machines.Settings) *string { return &m.Conditions })
	}},
	{"SLURMLET_CORDON", "off", func(s *Settings, v string) (err error) { s.Cordon.Mode, err = cordon.ParseMode(v); return err }},
	{"SLURMLET_CORDON_NAMESPACES", "none", func(s *Settings, v string) (err error) {
		s.Cordon.Namespaces, err = cordon.ParseNamespaces(v)
		return err
	}},
	{"SLURMLET_SCALE_IN", "true", func(s *Settings, v string) error { return setBool(&s.ScaleIn, v) }},
	{"SLURMLET_SAFE_TO_EVICT", "false", func(s *Settings, v string) error { return setBool(&s.SafeToEvict, v) }},
	{"SLURMLET_ROLL", "true", func(s *Settings, v string) error { return setBool(&s.Roll, v) }},
	{"SLURMLET_ELASTIC", "none", func(s *Settings, v string) error { return setElastic(&s.Elastic, v) }},
	{"SLURMLET_ELASTIC_QPS", "50", func(s *Settings, v string) error { return setRate(&s.Elastic.QPS, v) }},
	{"SLURMLET_ELASTIC_BURST", "100", func(s *Settings, v string) error { return setCount(&s.Elastic.Burst, v) }},
	{"SLURMLET_BRIDGE", "false", func(s *Settings, v string) error { return setBool(&s.Bridge.On, v) }},
	{"SLURMLET_BRIDGE_NAMESPACES", "all", func(s *Settings, v string) (err error) { s.Bridge.In, err = namespaces.Parse(v); return err }},
	{"SLURMLET_BRIDGE_QPS", "100", func(s *Settings, v string) error { return setRate(&s.Bridge.QPS, v) }},
	{"SLURMLET_CONFIG_MAPS", "none", func(s *Settings, v string) (err error) { s.ConfigMaps, err = refresh.Parse(v); return err }},
}

// FromEnv reads the settings from an environment. Its error names every fault, unknown variables of
// slurmlet's included.
func FromEnv(environ []string) (Settings, error) {
	s := Settings{}
	given := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		given[name] = value
	}
	s.Kubeconfig = given["KUBECONFIG"]
	var faults []error
	for _, v := range variables {
		value := given[v.name]
		if value == "" {
			value = v.fallback
		}
		if err := v.parse(&s, value); err != nil {
			faults = append(faults, fmt.Errorf("%s: %v", v.name, err))
		}
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "SLURMLET_") && !slices.ContainsFunc(variables, func(v variable) bool { return v.name == name }) {
			faults = append(faults, fmt.Errorf("%s: there is no such variable", name))
		}
	}
	if s.Webhook != "" && (s.Inject.Image == "" || s.Inject.Peers == "") {
		faults = append(faults, errors.New("SLURMLET_WEBHOOK: the pods need SLURMLET_AGENT_IMAGE and SLURMLET_PEERS"))
	}
	if s.Cordon.Mode != cordon.Off && len(s.Cordon.Namespaces) == 0 {
		faults = append(faults, errors.New("SLURMLET_CORDON: name the namespaces whose drains mark machines (SLURMLET_CORDON_NAMESPACES)"))
	}
	return s, errors.Join(append(faults, s.bound()...)...)
}

// bound keeps what the other settings name within Namespaces, and returns the faults of those that name more.
func (s *Settings) bound() (faults []error) {
	for _, namespace := range s.Namespaces.Lacks(s.Elastic.In) {
		faults = append(faults, fmt.Errorf("SLURMLET_ELASTIC: SLURMLET_NAMESPACES lacks the namespace %s", namespace))
	}
	for _, namespace := range s.Cordon.Namespaces {
		if !s.Namespaces.Has(namespace) {
			faults = append(faults, fmt.Errorf("SLURMLET_CORDON_NAMESPACES: SLURMLET_NAMESPACES lacks the namespace %s", namespace))
		}
	}
	for _, name := range s.ConfigMaps {
		if !s.Namespaces.Has(name.Namespace) {
			faults = append(faults, fmt.Errorf("SLURMLET_CONFIG_MAPS: SLURMLET_NAMESPACES lacks the namespace of %s", name))
		}
	}
	if s.Elastic.In.All() {
		s.Elastic.In = s.Namespaces
	}
	return faults
}

func set(to *string, value string) error {
	if value == "" {
		return errors.New("want a name: the chart sets it from the pod's own fields")
	}
	*to = value
	return nil
}

// setRules takes one of the lists that say what agents are told of their machines: none, or usual for what
// stands in its place in machines.Usual, which may be followed by more.
func setRules(to *string, value string, field func(*machines.Settings) *string) error {
	var one machines.Settings
	*field(&one) = value
	if rest, is := strings.CutPrefix(value, "usual"); is && (rest == "" || rest[0] == ',') {
		usual := machines.Usual
		*field(&one) = *field(&usual) + rest
	} else if value == "none" {
		*field(&one) = ""
	}
	*to = *field(&one)
	_, err := machines.Parse(one)
	return err
}

func setBool(to *bool, value string) error {
	if value != "true" && value != "false" {
		return fmt.Errorf("want true or false, not %q", value)
	}
	*to = value == "true"
	return nil
}

// shortest is the least lifetime of an authority. A pod hears of the next one within minutes, so only a test
// wants less than days.
const shortest = 20 * time.Second

func setLifetime(to *time.Duration, value string) (err error) {
	if *to, err = time.ParseDuration(value); err != nil || *to < shortest {
		return fmt.Errorf("want a duration of at least %v, as in 8760h, not %q", shortest, value)
	}
	return nil
}

// setElastic takes none, all, or namespaces.
func setElastic(to *elastic.Settings, value string) (err error) {
	if to.On = value != "none"; !to.On {
		return nil
	}
	if to.In, err = namespaces.Parse(value); err != nil {
		return fmt.Errorf("want none, all, or namespaces separated by commas, not %q", value)
	}
	return nil
}

func setRate(to *float32, value string) error {
	rate, err := strconv.ParseFloat(value, 32)
	if err != nil || !(rate >= 0.1 && rate <= 10_000) {
		return fmt.Errorf("want a number from 0.1 to 10000, not %q", value)
	}
	*to = float32(rate)
	return nil
}

func setCount(to *int, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > 10_000 {
		return fmt.Errorf("want a whole number from 1 to 10000, not %q", value)
	}
	*to = n
	return nil
}

// setAddresses takes IP addresses separated by commas.
func setAddresses(to *[]netip.Addr, value string) error {
	*to = nil
	for text := range strings.SplitSeq(value, ",") {
		if value == "" {
			return nil
		}
		one, err := netip.ParseAddr(text)
		if err != nil || one.Zone() != "" {
			return fmt.Errorf("want IP addresses separated by commas, as in 10.96.0.80,fd00::80, not %q", value)
		}
		*to = append(*to, one)
	}
	return nil
}

func setAddress(to *string, value string) error {
	if _, _, err := net.SplitHostPort(value); err != nil {
		return fmt.Errorf("want [address]:port, not %q", value)
	}
	*to = value
	return nil
}

func setPullPolicy(to *corev1.PullPolicy, value string) error {
	*to = corev1.PullPolicy(value)
	if !slices.Contains([]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}, *to) {
		return fmt.Errorf("want Always, IfNotPresent or Never, not %q", value)
	}
	return nil
}

func setImageVolume(to *bool, value string) error {
	if *to = value == "image"; !*to && value != "emptyDir" {
		return fmt.Errorf("want emptyDir or image, not %q", value)
	}
	return nil
}

func setSeconds(to *int64, value string) error {
	time, err := time.ParseDuration(value)
	if err != nil || time.Seconds() < 1 {
		return fmt.Errorf("want a duration of a second or more, such as 24h, not %q", value)
	}
	*to = int64(time.Seconds())
	return nil
}
