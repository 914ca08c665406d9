package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/netguard"
)

// downloadCommand is `task download`.
type downloadCommand struct {
	*app
	flags clientFlags

	dir      string
	artifact string
	fetch    bool
	force    bool
}

func newTaskDownloadCommand(a *app) *cobra.Command {
	c := &downloadCommand{app: a}
	cmd := &cobra.Command{
		Use:   "download [AGENT] TASK",
		Short: "Save the artifacts of a task as files",
		Long: `Save the artifacts of a task as files: texts as .txt or what their media type
says, data as .json, files under their own names without their directories.
What an agent left at a URL is listed, and fetched with --fetch only.`,
		Example: "  handoff task download quote 0199… --dir out",
		Args:    cobra.ArbitraryArgs,
		RunE:    c.run,
	}
	c.flags.register(a, cmd)
	fs := cmd.Flags()
	fs.StringVar(&c.dir, "dir", ".", "directory to save to; it is made when it is missing")
	fs.StringVar(&c.artifact, "artifact", "", "only the artifact with this id")
	fs.BoolVar(&c.fetch, "fetch", false, "fetch the files that are given as URLs, without credentials")
	fs.BoolVar(&c.force, "force", false, "overwrite files that exist")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// download is a file to save, or one that was.
type download struct {
	artifactID string
	name       string // of the file, in the directory
	mediaType  string
	content    []byte
	url        string // when the content is elsewhere
	size       int64
	path       string // where it was saved; "" when it was not
}

func (c *downloadCommand) run(cmd *cobra.Command, args []string) error {
	s, id, end, err := c.openTask(cmd.Context(), &c.flags, args)
	if err != nil {
		return err
	}
	defer end()
	zero := 0
	task, err := s.client.GetTask(s.ctx, &a2a.GetTaskRequest{ID: id, HistoryLength: &zero})
	if err != nil {
		return s.failure(err)
	}
	files, err := c.plan(task)
	if err != nil {
		return err
	}
	if err := c.save(s, files); err != nil {
		return s.failure(err)
	}
	return c.show(s, task, files)
}

// plan lists the files of a task, each with a name of its own.
func (c *downloadCommand) plan(t *a2a.Task) ([]*download, error) {
	var files []*download
	found := false
	taken := map[string]bool{}
	for i := range t.Artifacts {
		artifact := &t.Artifacts[i]
		if c.artifact != "" && artifact.ArtifactID != c.artifact {
			continue
		}
		found = true
		for _, p := range joinTexts(artifact.Parts) {
			f := fileOf(artifact, &p)
			f.name = unique(f.name, taken)
			files = append(files, f)
		}
	}
	if c.artifact != "" && !found {
		return nil, failf(codeInternal, "task %s has no artifact %q", t.ID, c.artifact).hint("Leave --artifact out to save all")
	}
	return files, nil
}

// fileOf returns the file of a part.
func fileOf(artifact *a2a.Artifact, p *a2a.Part) *download {
	f := &download{artifactID: artifact.ArtifactID, mediaType: p.MediaType}
	ext := ""
	switch p.Kind {
	case a2a.PartText:
		f.content, ext = []byte(p.Text), extensionOf(p.MediaType, ".txt")
	case a2a.PartData:
		f.content, ext = append(bytes.Clone(p.Data), '\n'), ".json"
	case a2a.PartRaw:
		f.content, ext = p.Raw, extensionOf(p.MediaType, ".bin")
	case a2a.PartURL:
		f.url, ext = p.URL, extensionOf(p.MediaType, "")
		if u, err := url.Parse(p.URL); err == nil && p.Filename == "" {
			f.name = safeName(path.Base(u.Path))
		}
	}
	f.size = int64(len(f.content))
	if name := safeName(p.Filename); name != "" {
		f.name = name
	}
	if f.name == "" {
		if f.name = safeName(artifact.Name); f.name == "" {
			f.name = safeName(artifact.ArtifactID)
		}
		if f.name == "" {
			f.name = "artifact"
		}
		if !strings.HasSuffix(f.name, ext) {
			f.name += ext
		}
	}
	return f
}

// unique makes a name that is not taken, in any case, and takes it.
func unique(name string, taken map[string]bool) string {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 2; taken[strings.ToLower(name)]; n++ {
		name = stem + "-" + strconv.Itoa(n) + ext
	}
	taken[strings.ToLower(name)] = true
	return name
}

// save writes the files. Nothing is written when one of them would overwrite
// another file.
func (c *downloadCommand) save(s *session, files []*download) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	root, err := os.OpenRoot(c.dir) // a name or a link in it does not lead out
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer root.Close()
	for _, f := range files {
		if f.url != "" && !c.fetch || c.force {
			continue
		}
		if _, err := root.Lstat(f.name); !errors.Is(err, fs.ErrNotExist) {
			return failf(codeInternal, "%s exists already; nothing was saved", filepath.Join(c.dir, f.name)).
				hint("Choose another --dir, or add --force to overwrite")
		}
	}
	for _, f := range files {
		if f.url == "" {
			err = c.write(root, f, bytes.NewReader(f.content))
		} else if c.fetch {
			err = c.get(s, root, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *downloadCommand) write(root *os.Root, f *download, content io.Reader) error {
	if c.force {
		if err := root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("overwrite %s: %w", f.name, err)
		}
	}
	file, err := root.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("save %s: %w", f.name, err)
	}
	f.size, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = root.Remove(f.name)
		return fmt.Errorf("save %s: %w", f.name, err)
	}
	f.path = filepath.Join(c.dir, f.name)
	return nil
}

// maxFetched bounds a file that is fetched, in bytes.
const maxFetched = 1 << 30

// get fetches a file. The agent named the address, so that it may be a public
// one only, or the agent's own; it gets no credentials.
func (c *downloadCommand) get(s *session, root *os.Root, f *download) error {
	if u, err := url.Parse(f.url); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return failf(codeInternal, "the agent names %q, which is not an http or https URL", f.url)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return fmt.Errorf("fetch %s: %w", f.name, err)
	}
	guard := netguard.New(netguard.Policy{Allow: s.ownDestination()})
	resp, err := guard.Named(netguard.Options{}).Do(req)
	if err != nil {
		if blocked, ok := errors.AsType[*netguard.BlockedError](err); ok {
			return failf(codeInternal, "fetch %s: %w", f.name, blocked)
		}
		return failf(codeUnreachable, "fetch %s: %w", f.name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return failf(codeInternal, "fetch %s: the server answered %s", f.name, resp.Status)
	}
	if f.mediaType == "" {
		f.mediaType = plainType(resp.Header.Get("Content-Type"))
	}
	return c.write(root, f, &limitedReader{r: resp.Body, left: maxFetched})
}

// limitedReader fails beyond its limit, instead of ending as io.LimitReader
// does.
type limitedReader struct {
	r    io.Reader
	left int64
}

// Read reads from r.
func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, fmt.Errorf("it has more than %d bytes", int64(maxFetched))
	}
	return n, err
}

// ownDestination is where the agent is reached, which may be private.
func (s *session) ownDestination() []netguard.Destination {
	u, err := url.Parse(s.client.Interface().URL)
	if err != nil {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	var d netguard.Destination
	if err := d.UnmarshalText([]byte(net.JoinHostPort(u.Hostname(), port))); err != nil {
		return nil
	}
	return []netguard.Destination{d}
}

func (c *downloadCommand) show(s *session, t *a2a.Task, files []*download) error {
	if s.output != formatText {
		return s.writeDocument(s.output, appendDownloads(nil, t, files), false)
	}
	v := s.newView()
	v.identity(t.ID, t.ContextID, t.Status.State)
	for _, f := range files {
		if f.path == "" {
			v.field("Not Fetched", f.url)
		} else {
			v.field("Saved", fmt.Sprintf("%s (%s, %s)", f.path, orNone(f.mediaType), plural(int(f.size), "byte")))
		}
	}
	return v.err
}

// appendDownloads appends the JSON of what was saved; docs/cli-json.md has its
// form.
func appendDownloads(dst []byte, t *a2a.Task, files []*download) []byte {
	member := func(name, value string) {
		if value != "" {
			dst = append(append(append(dst, `,"`...), name...), `":`...)
			dst = append(dst, quoteJSON(value)...)
		}
	}
	dst = append(append(dst, `{"taskId":`...), quoteJSON(t.ID)...)
	member("contextId", t.ContextID)
	member("state", t.Status.State.String())
	dst = append(dst, `,"files":[`...)
	for i, f := range files {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `{"artifactId":`...), quoteJSON(f.artifactID)...)
		member("path", f.path)
		member("mediaType", f.mediaType)
		member("url", f.url)
		if f.path != "" {
			dst = strconv.AppendInt(append(dst, `,"size":`...), f.size, 10)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}
