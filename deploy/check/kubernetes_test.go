package check

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var manifestDir = filepath.Join(deploy, "kubernetes")

// manifests are the objects of deploy/kubernetes.
type manifests struct {
	config     *corev1.ConfigMap
	deployment *appsv1.Deployment
	service    *corev1.Service
	budget     *policyv1.PodDisruptionBudget
}

// decode reads one manifest as the API server does: names are case-sensitive,
// and what is unknown or stands twice is an error.
func decode(text []byte) (metav1.Object, error) {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var kind metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &kind); err != nil {
		return nil, err
	}
	objects := map[string]metav1.Object{
		"v1 ConfigMap":                  &corev1.ConfigMap{},
		"v1 Secret":                     &corev1.Secret{},
		"v1 Service":                    &corev1.Service{},
		"apps/v1 Deployment":            &appsv1.Deployment{},
		"policy/v1 PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
	}
	object, ok := objects[kind.APIVersion+" "+kind.Kind]
	if !ok {
		return nil, fmt.Errorf("%s %s is not known to this check", kind.APIVersion, kind.Kind)
	}
	strict, err := json.UnmarshalStrict(data, object)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("%v", strict)
	}
	if wrong := validation.IsDNS1123Label(object.GetName()); len(wrong) > 0 {
		return nil, fmt.Errorf("name %q: %v", object.GetName(), wrong)
	}
	if object.GetNamespace() != "" {
		return nil, fmt.Errorf("%s names a namespace", object.GetName())
	}
	return object, nil
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"unknown field": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: []}\n",
		"other case":    "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {Ports: []}\n",
		"twice":         "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nmetadata: {name: b}\n",
		"wrong type":    "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: 80}\n",
		"old version":   "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n",
	} {
		if _, err := decode([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// add takes an object in.
func (m *manifests) add(object metav1.Object) error {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		m.config = o
	case *appsv1.Deployment:
		m.deployment = o
	case *corev1.Service:
		m.service = o
	case *policyv1.PodDisruptionBudget:
		m.budget = o
	default:
		return fmt.Errorf("%T does not belong here", object)
	}
	return nil
}

func (m *manifests) complete() bool {
	return m.config != nil && m.deployment != nil && m.service != nil && m.budget != nil
}

// plain returns what kubectl apply -f would send.
func plain(t *testing.T) *manifests {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(manifestDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := &manifests{}
	for _, file := range files {
		switch filepath.Base(file) {
		case "kustomization.yaml", "secret.example.yaml", "secret.yaml":
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object, err := decode(text)
		if err == nil {
			err = m.add(object)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if !m.complete() {
		t.Fatalf("something is missing in %s", manifestDir)
	}
	return m
}

// customized returns what kubectl apply -k would send.
func customized(t *testing.T) *manifests {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifestDir)
	if err != nil {
		t.Fatal(err)
	}
	m := &manifests{}
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object, err := decode(text)
		if err == nil {
			err = m.add(object)
		}
		if err != nil {
			t.Fatalf("%s: %v", r.CurId(), err)
		}
	}
	if !m.complete() {
		t.Fatal("the kustomization leaves something out")
	}
	return m
}

func TestKustomizationChangesNothing(t *testing.T) {
	t.Parallel()
	p, k := plain(t), customized(t)
	for _, pair := range [][2]any{
		{p.config, k.config}, {p.deployment, k.deployment}, {p.service, k.service}, {p.budget, k.budget},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("kubectl apply -f and -k differ:\n%s", diff)
		}
	}
}

// container returns the one container of the pods.
func (m *manifests) container(t *testing.T) *corev1.Container {
	t.Helper()
	if n := len(m.deployment.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("%d containers", n)
	}
	return &m.deployment.Spec.Template.Spec.Containers[0]
}

// settings returns the values of the configuration in the ConfigMap.
func (m *manifests) settings(t *testing.T) settings {
	t.Helper()
	var c settings
	if err := yaml.Unmarshal([]byte(m.config.Data["handoff.yaml"]), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSelectorsFindThePods(t *testing.T) {
	t.Parallel()
	m := plain(t)
	pods := labels.Set(m.deployment.Spec.Template.Labels)
	selectors := map[string]*metav1.LabelSelector{
		"Deployment":          m.deployment.Spec.Selector,
		"PodDisruptionBudget": m.budget.Spec.Selector,
		"Service":             {MatchLabels: m.service.Spec.Selector},
	}
	spread := m.deployment.Spec.Template.Spec.TopologySpreadConstraints
	if len(spread) == 0 {
		t.Error("pods may all be on one machine")
	}
	for _, s := range spread {
		selectors["spread over "+s.TopologyKey] = s.LabelSelector
	}
	for name, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || selector.Empty() || !selector.Matches(pods) {
			t.Errorf("%s: the selector %v does not match %v (%v)", name, s, pods, err)
		}
	}
}

// port returns the number of a port of the container, 0 when there is none.
func port(c *corev1.Container, name intstr.IntOrString) int32 {
	for _, p := range c.Ports {
		if name.Type == intstr.String && p.Name == name.StrVal || name.Type == intstr.Int && p.ContainerPort == name.IntVal {
			return p.ContainerPort
		}
	}
	return 0
}

// listening returns the port of an address such as :8080.
func listening(t *testing.T, address string) int32 {
	t.Helper()
	text, ok := strings.CutPrefix(address, ":")
	n, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil {
		t.Fatalf("the node listens on %q, and not on every address of the pod", address)
	}
	return int32(n)
}

func TestPortsLeadToTheNode(t *testing.T) {
	t.Parallel()
	m := plain(t)
	c, s := m.container(t), m.settings(t)
	node := listening(t, s.Listen)
	if _, ok := imageConfig(t).ExposedPorts[fmt.Sprintf("%d/tcp", node)]; !ok {
		t.Errorf("the image does not expose %d", node)
	}
	if metrics := listening(t, s.Telemetry.Listen); port(c, intstr.FromString("metrics")) != metrics || metrics == node {
		t.Errorf("metrics are on %d, and the ports are %v", metrics, c.Ports)
	}
	if u, err := url.Parse(strings.ReplaceAll(s.NodeURL, "${POD_IP}", "10.1.2.3")); err != nil || u.Hostname() != "10.1.2.3" || u.Port() != fmt.Sprint(node) {
		t.Errorf("node_url is %s", s.NodeURL)
	}
	for _, p := range m.service.Spec.Ports {
		if port(c, p.TargetPort) != node {
			t.Errorf("the service leads to %v", p.TargetPort)
		}
	}
	probes := map[string]struct {
		probe *corev1.Probe
		path  string
	}{
		// A node whose store does not answer is not ready, and a restart would not
		// help it.
		"startup":   {c.StartupProbe, "/healthz"},
		"liveness":  {c.LivenessProbe, "/healthz"},
		"readiness": {c.ReadinessProbe, "/readyz"},
	}
	for name, p := range probes {
		if p.probe == nil || p.probe.HTTPGet == nil {
			t.Errorf("there is no %s probe", name)
			continue
		}
		if get := p.probe.HTTPGet; get.Path != p.path || port(c, get.Port) != node {
			t.Errorf("the %s probe asks for %s on %v", name, get.Path, get.Port)
		}
	}
}

// A node that stops has the time that it says it needs.
func TestGracePeriodsAddUp(t *testing.T) {
	t.Parallel()
	m := plain(t)
	c := m.container(t)
	grace, err := time.ParseDuration(m.settings(t).ShutdownGrace)
	if err != nil {
		t.Fatal(err)
	}
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
		t.Fatal("pods stop before the balancers know")
	}
	if exec := c.Lifecycle.PreStop.Exec; exec != nil {
		t.Errorf("the image has no shell to run %v", exec.Command)
	}
	sleep := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	seconds := m.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds
	const margin = 10 * time.Second
	if seconds == nil || time.Duration(*seconds)*time.Second < sleep+grace+margin {
		t.Errorf("terminationGracePeriodSeconds is less than %s + %s + %s", sleep, grace, margin)
	}
}

// Neither an upgrade nor an eviction takes away more than one node.
func TestNodesStayAvailable(t *testing.T) {
	t.Parallel()
	m := plain(t)
	replicas := m.deployment.Spec.Replicas
	least := m.budget.Spec.MinAvailable
	if replicas == nil || *replicas < 3 || least == nil || least.Type != intstr.Int || least.IntVal != *replicas-1 {
		t.Errorf("%v of %v nodes stay", least, replicas)
	}
	u := m.deployment.Spec.Strategy.RollingUpdate
	if u == nil || u.MaxUnavailable == nil || u.MaxUnavailable.IntValue() != 0 || u.MaxSurge == nil || u.MaxSurge.IntValue() < 1 {
		t.Errorf("an upgrade is %v", u)
	}
}

func TestPodsHaveNoRights(t *testing.T) {
	t.Parallel()
	m := plain(t)
	p, c := m.deployment.Spec.Template.Spec, m.container(t).SecurityContext
	is := func(b *bool, want bool) bool { return b != nil && *b == want }
	s := p.SecurityContext
	if s == nil || c == nil {
		t.Fatal("there is no security context")
	}
	for what, ok := range map[string]bool{
		"runs as root":             is(s.RunAsNonRoot, true) && s.RunAsUser != nil && s.RunAsGroup != nil,
		"has no seccomp profile":   s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"may gain privileges":      is(c.AllowPrivilegeEscalation, false),
		"can write its root":       is(c.ReadOnlyRootFilesystem, true),
		"keeps capabilities":       c.Capabilities != nil && cmp.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) && c.Capabilities.Add == nil,
		"has a token":              is(p.AutomountServiceAccountToken, false),
		"gets variables of others": is(p.EnableServiceLinks, false),
	} {
		if !ok {
			t.Errorf("the pod %s", what)
		}
	}
	if user := fmt.Sprintf("%d:%d", *s.RunAsUser, *s.RunAsGroup); user != imageConfig(t).User {
		t.Errorf("the pod runs as %s, the image as %s", user, imageConfig(t).User)
	}
}

func TestMemoryLimitIsKnownToTheNode(t *testing.T) {
	t.Parallel()
	c := plain(t).container(t)
	limit := c.Resources.Limits.Memory()
	for _, e := range c.Env {
		if e.Name != "GOMEMLIMIT" {
			continue
		}
		soft, err := resource.ParseQuantity(strings.TrimSuffix(e.Value, "B"))
		if err != nil || soft.Cmp(*limit) >= 0 || soft.Cmp(*c.Resources.Requests.Memory()) < 0 {
			t.Errorf("GOMEMLIMIT=%s does not lie between the request and the limit of %s (%v)", e.Value, limit, err)
		}
		return
	}
	t.Error("there is no GOMEMLIMIT")
}

func TestImageIsOneVersion(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*manifests{"plain": plain(t), "kustomization": customized(t)} {
		image := m.container(t).Image
		if _, tag, ok := strings.Cut(image, ":"); !ok || tag == "latest" {
			t.Errorf("%s: the image %s names no version", name, image)
		}
	}
	var k struct {
		Resources []string                `json:"resources"`
		Images    []struct{ Name string } `json:"images"`
	}
	if err := yaml.Unmarshal(read(t, "kubernetes/kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(plain(t).container(t).Image, ":")
	if len(k.Images) != 1 || k.Images[0].Name != name {
		t.Errorf("the kustomization changes %v, and the image is %s", k.Images, name)
	}
	for _, r := range k.Resources {
		if strings.HasPrefix(r, "secret") {
			t.Errorf("the kustomization has %s", r)
		}
	}
}

// example returns the Secret of the example.
func example(t *testing.T) *corev1.Secret {
	t.Helper()
	object, err := decode(read(t, "kubernetes/secret.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	secret, ok := object.(*corev1.Secret)
	if !ok {
		t.Fatalf("the example is a %T", object)
	}
	return secret
}

// environment returns what the container has in its environment, with the values
// of the example and a key that is long enough.
func environment(t *testing.T, m *manifests) []string {
	t.Helper()
	secret := example(t)
	var env []string
	for _, e := range m.container(t).Env {
		switch {
		case e.ValueFrom == nil:
			env = append(env, e.Name+"="+e.Value)
		case e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "status.podIP":
			env = append(env, e.Name+"=10.1.2.3")
		case e.ValueFrom.SecretKeyRef != nil:
			ref := e.ValueFrom.SecretKeyRef
			value, ok := secret.StringData[ref.Key]
			if ref.Name != secret.Name || !ok {
				t.Errorf("%s is in %s at %s, which the example has not", e.Name, ref.Name, ref.Key)
			}
			if ref.Key == "secret-key" {
				value = strings.Repeat("k", 64)
			}
			env = append(env, e.Name+"="+value)
		default:
			t.Errorf("where %s comes from is not known to this check", e.Name)
		}
	}
	return env
}

// The program reads the configuration of the ConfigMap with the environment of
// the container, and no variable more.
func TestConfigurationIsCorrect(t *testing.T) {
	t.Parallel()
	m := plain(t)
	text := m.config.Data["handoff.yaml"]
	env := environment(t, m)
	// What the pod mounts is not here.
	local := strings.Replace(text, "/run/handoff/", t.TempDir()+"/", 1)
	if local == text {
		t.Error("the socket is not in /run/handoff")
	}
	checkConfig(t, local, env)
	if store := m.settings(t).Store; store != "${HANDOFF_STORE}" || !strings.HasPrefix(example(t).StringData["store"], "postgres://") {
		t.Errorf("the nodes have no store in common: %s", store)
	}
	if key := example(t).StringData["secret-key"]; len(key) >= 32 {
		t.Error("the key of the example would be accepted")
	}
}

// What the program reads and writes is mounted.
func TestFilesAreMounted(t *testing.T) {
	t.Parallel()
	m := plain(t)
	c := m.container(t)
	if diff := cmp.Diff(imageConfig(t).Cmd, c.Args); diff != "" {
		t.Errorf("arguments of the image and of the pod (-image +pod):\n%s", diff)
	}
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range m.deployment.Spec.Template.Spec.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	mounted := map[string]corev1.VolumeSource{}
	for _, at := range c.VolumeMounts {
		source, ok := volumes[at.Name]
		if !ok {
			t.Errorf("there is no volume %s", at.Name)
		}
		mounted[at.MountPath] = source
		if at.SubPath != "" {
			t.Errorf("%s would not follow changes", at.MountPath)
		}
	}
	config := mounted[filepath.Dir(c.Args[len(c.Args)-1])].ConfigMap
	if config == nil || config.Name != m.config.Name {
		t.Errorf("the configuration is mounted from %v", config)
	}
	if socket := m.settings(t).Socket; mounted[filepath.Dir(socket)].EmptyDir == nil {
		t.Errorf("the directory of %s cannot be written", socket)
	}
	if mounted["/tmp"].EmptyDir == nil {
		t.Error("/tmp cannot be written")
	}
}
