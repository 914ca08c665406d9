package check

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// image is what came of carrying out the Dockerfile without a container: the
// instructions that it uses and no others, with the machine at hand in the place
// of the base image of the build stage.
type image struct {
	root string // the files of the final stage
}

// binary returns the program in the image.
func (i *image) binary() string { return filepath.Join(i.root, "handoff") }

// stage is a stage that has been carried out.
type stage struct {
	dir     string // its files, or those below workdir
	workdir string // "" is the root
	env     []string
}

// local returns where the file of an absolute path of the stage is.
func (s *stage) local(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, s.workdir)
	if !ok {
		return "", fmt.Errorf("%s is not below %s", path, s.workdir)
	}
	return filepath.Join(s.dir, rest), nil
}

func buildImage(dir string) (*image, error) {
	text, err := os.ReadFile(filepath.Join(deploy, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, err
	}
	files, err := buildContext()
	if err != nil {
		return nil, err
	}
	b := &builder{context: files, stages: map[string]*stage{}}
	var last *stage
	for n, s := range stages {
		last = &stage{dir: filepath.Join(dir, strconv.Itoa(n))}
		if err := os.Mkdir(last.dir, 0o755); err != nil {
			return nil, err
		}
		for _, c := range s.Commands {
			if err := b.do(last, c); err != nil {
				return nil, fmt.Errorf("%v: %w", c, err)
			}
		}
		b.stages[s.Name] = last
	}
	// What the user of the image does not own, it must be able to reach.
	return &image{root: last.dir}, os.Chmod(dir, 0o755)
}

// buildContext returns the files that a build sees: those that are in the
// repository, or will be once they are committed.
func buildContext() ([]string, error) {
	matcher, err := ignored()
	if err != nil {
		return nil, err
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = repository
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		skip, err := matcher.MatchesOrParentMatches(name)
		if err != nil {
			return nil, err
		}
		if _, gone := os.Stat(filepath.Join(repository, name)); !skip && gone == nil {
			files = append(files, name)
		}
	}
	return files, nil
}

// ignored returns what matches the files that are kept from the build.
func ignored() (*patternmatcher.PatternMatcher, error) {
	f, err := os.Open(filepath.Join(deploy, "Dockerfile.dockerignore"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return patternmatcher.New(patterns)
}

type builder struct {
	context []string // relative to the repository
	stages  map[string]*stage
}

func (b *builder) do(s *stage, command instructions.Command) error {
	switch c := command.(type) {
	case *instructions.WorkdirCommand:
		s.workdir = c.Path
	case *instructions.ArgCommand:
		for _, a := range c.Args {
			value := map[string]string{"TARGETOS": runtime.GOOS, "TARGETARCH": runtime.GOARCH}[a.Key]
			if a.Value != nil {
				value = *a.Value
			}
			s.env = append(s.env, a.Key+"="+value)
		}
	case *instructions.RunCommand:
		run := exec.Command("sh", "-c", strings.Join(c.CmdLine, " "))
		run.Dir = s.dir
		run.Env = append(os.Environ(), s.env...)
		if out, err := run.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	case *instructions.CopyCommand:
		if c.From == "" {
			return b.copyContext(s, c)
		}
		return b.copyStage(s, c)
	case *instructions.UserCommand, *instructions.VolumeCommand, *instructions.ExposeCommand,
		*instructions.StopSignalCommand, *instructions.HealthCheckCommand,
		*instructions.EntrypointCommand, *instructions.CmdCommand:
		// What the image says of itself; image_test.go looks at it.
	default:
		return errors.New("this check does not know the instruction")
	}
	return nil
}

// copyContext copies files of the repository to the working directory.
func (b *builder) copyContext(s *stage, c *instructions.CopyCommand) error {
	if c.DestPath != "./" && c.DestPath != "." {
		return fmt.Errorf("this check copies to the working directory only, not to %s", c.DestPath)
	}
	copied := 0
	for _, name := range b.context {
		if c.SourcePaths[0] != "." && !slices.Contains(c.SourcePaths, name) {
			continue
		}
		copied++
		if err := copyFile(filepath.Join(repository, name), filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	if copied < len(c.SourcePaths) {
		return errors.New("not every source is in the build context")
	}
	return nil
}

// copyStage copies from another stage, with owners.
func (b *builder) copyStage(s *stage, c *instructions.CopyCommand) error {
	from := b.stages[c.From]
	if from == nil || len(c.SourcePaths) != 1 || c.Chmod != "" {
		return errors.New("this check copies one source of a stage, without --chmod")
	}
	source, err := from.local(c.SourcePaths[0])
	if err != nil {
		return err
	}
	uid, gid := 0, 0
	if c.Chown != "" {
		if _, err := fmt.Sscanf(c.Chown, "%d:%d", &uid, &gid); err != nil {
			return fmt.Errorf("read owner %s: %w", c.Chown, err)
		}
	}
	target := filepath.Join(s.dir, c.DestPath)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, _ := filepath.Rel(source, path)
		to := filepath.Join(target, rest)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			err = os.MkdirAll(to, info.Mode().Perm())
		} else {
			err = copyFile(path, to)
		}
		if err != nil {
			return err
		}
		if err := os.Chown(to, uid, gid); err != nil {
			return fmt.Errorf("this check needs root: %w", err)
		}
		return os.Chmod(to, info.Mode().Perm())
	})
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}
