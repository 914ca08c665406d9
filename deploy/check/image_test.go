package check

import (
	"context"
	"crypto/x509"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerui"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// baseImages answers for every base image as if it said nothing of itself: no
// registry is asked.
type baseImages struct{}

func (baseImages) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config := []byte(`{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers"}}`)
	return ref, digest.FromBytes(config), config, nil
}

func frontend(text []byte) dockerfile2llb.ConvertOpt {
	source := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", text)
	source.Definition = &llb.Definition{}
	platform := ocispecs.Platform{OS: "linux", Architecture: "amd64"}
	return dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			BuildPlatforms: []ocispecs.Platform{platform},
			LinterConfig:   &linter.Config{ExperimentalAll: true},
		},
		SourceMap:      source,
		TargetPlatform: &platform,
		MetaResolver:   baseImages{},
	}
}

// lint returns what the linter of docker build --check says.
func lint(t *testing.T, text []byte) []string {
	t.Helper()
	found, err := dockerfile2llb.DockerfileLint(t.Context(), text, frontend(text))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	if found.Error != nil {
		list = append(list, found.Error.Message)
	}
	for _, w := range found.Warnings {
		list = append(list, w.RuleName+": "+w.Detail)
	}
	return list
}

func TestDockerfileHasNoWarnings(t *testing.T) {
	t.Parallel()
	if got := lint(t, read(t, "Dockerfile")); len(got) != 0 {
		t.Errorf("Dockerfile: %q", got)
	}
	// The linter does find something when there is something.
	bad := "FROM scratch as Final\nENV SECRET_KEY=1\nCMD handoff serve\n"
	if got := lint(t, []byte(bad)); len(got) < 3 {
		t.Errorf("a bad Dockerfile: %q", got)
	}
}

// imageConfig returns what the image says of itself, by the frontend of BuildKit.
func imageConfig(t *testing.T) dockerspec.DockerOCIImageConfig {
	t.Helper()
	text := read(t, "Dockerfile")
	r, err := dockerfile2llb.Dockerfile2LLB(t.Context(), text, frontend(text))
	if err != nil {
		t.Fatal(err)
	}
	return r.Image.Config
}

func TestImageSaysHowItRuns(t *testing.T) {
	t.Parallel()
	c := imageConfig(t)
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(c.User) {
		t.Errorf("the user is %q, not the numbers of one that is not root", c.User)
	}
	if c.StopSignal != "SIGTERM" || c.Healthcheck == nil {
		t.Errorf("stop signal %q, health check %v", c.StopSignal, c.Healthcheck)
	}
	want := map[string]struct{}{"8080/tcp": {}}
	if diff := cmp.Diff(want, c.ExposedPorts); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if _, ok := c.Volumes["/var/lib/handoff"]; !ok {
		t.Errorf("volumes are %v", c.Volumes)
	}
	if diff := cmp.Diff([]string{"/handoff"}, c.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
}

// The base image has the version of Go that the module asks for.
func TestBuildStageHasTheGoOfTheModule(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	given := regexp.MustCompile(`(?m)^ARG GO_VERSION=(\d+\.\d+)`).FindSubmatch(read(t, "Dockerfile"))
	if asked == nil || given == nil || string(asked[1]) != string(given[1]) {
		t.Errorf("go.mod asks for Go %q, the Dockerfile builds with %q", asked, given)
	}
}

func TestBuildContextLeavesSecretsAtHome(t *testing.T) {
	t.Parallel()
	matcher, err := ignored()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		".git/config", ".env", "sub/.env", "handoff.key", "certs/tls.key", "handoff.db", "handoff.db-wal",
		"handoff.db.sock", "deploy/kubernetes/secret.yaml", "secret.yaml", "interop/js/node_modules/x.js",
	} {
		if skip, err := matcher.MatchesOrParentMatches(name); !skip || err != nil {
			t.Errorf("%s gets into the build context (%v)", name, err)
		}
	}
}

func TestBinaryIsStatic(t *testing.T) {
	t.Parallel()
	binary := theImage(t).binary()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a %v", p.Type)
		}
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["CGO_ENABLED"] != "0" || settings["-trimpath"] != "true" {
		t.Errorf("built with %v", settings)
	}
}

// The image holds what the program needs and nothing else.
func TestImageHoldsWhatItNeeds(t *testing.T) {
	t.Parallel()
	root := theImage(t).root
	var files []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/etc/group", "/etc/passwd", "/etc/ssl/certs/ca-certificates.crt", "/handoff"}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	certificates, err := os.ReadFile(filepath.Join(root, want[2]))
	if err != nil {
		t.Fatal(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(certificates) {
		t.Error("there are no CA certificates in the image")
	}
	uid, gid, _ := strings.Cut(imageConfig(t).User, ":")
	passwd, err := os.ReadFile(filepath.Join(root, want[1]))
	if err != nil || !strings.HasPrefix(string(passwd), "handoff:x:"+uid+":"+gid+":") {
		t.Errorf("the user has no entry: %s (%v)", passwd, err)
	}
}
