package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/pflag"

	"handoff.example/handoff/a2a"
)

// maxPartSize bounds what one part is made of, in bytes.
const maxPartSize = 64 << 20

// partFlags are the parts of a message as the command line lists them (a2a-cli
// §10.2). The order of --text, --file and --data is that of the parts.
type partFlags struct{ list []partFlag }

// partFlag is one part.
type partFlag struct {
	kind      string // the name of its flag
	value     string
	mediaType *string // as --media-type says; nil: nothing was said
}

// register adds the flags that make parts.
func (f *partFlags) register(fs *pflag.FlagSet) {
	fs.Var(&partValue{f, "text"}, "text", "add a text part; - reads standard input")
	fs.Var(&partValue{f, "file"}, "file", "add a file part: a path, - for standard input, or a URL that the agent fetches")
	fs.Var(&partValue{f, "data"}, "data", "add a data part: a JSON file, - for standard input, or a JSON object or array itself")
	fs.Var(&mediaTypeValue{f}, "media-type", "media type of the part that the flag before it adds")
}

// partValue is the value of a flag that makes a part.
type partValue struct {
	parts *partFlags
	kind  string
}

func (v *partValue) String() string { return "" }

// Set adds a part.
func (v *partValue) Set(text string) error {
	v.parts.list = append(v.parts.list, partFlag{kind: v.kind, value: text})
	return nil
}

// Type is for the help.
func (v *partValue) Type() string {
	if v.kind == "text" {
		return "string"
	}
	return "path"
}

// mediaTypeValue is the value of --media-type.
type mediaTypeValue struct{ parts *partFlags }

func (v *mediaTypeValue) String() string { return "" }

// Set gives the last part its media type.
func (v *mediaTypeValue) Set(text string) error {
	if len(v.parts.list) == 0 {
		return errors.New("it belongs behind the --text, --file or --data that it is about")
	}
	last := &v.parts.list[len(v.parts.list)-1]
	if last.mediaType != nil {
		return errors.New("the part before it has a media type already")
	}
	if _, _, err := mime.ParseMediaType(text); err != nil {
		return errors.New("that is not a media type such as application/pdf")
	}
	last.mediaType = &text
	return nil
}

// Type is for the help.
func (v *mediaTypeValue) Type() string { return "type" }

// build makes the parts of the message; stdin is read for at most one of them.
func (f *partFlags) build(stdin io.Reader) ([]a2a.Part, error) {
	parts := make([]a2a.Part, 0, len(f.list))
	reads := 0
	for i := range f.list {
		if f.list[i].value == "-" {
			if reads++; reads > 1 {
				return nil, usagef("standard input can be read for one part only")
			}
		}
		p, err := f.list[i].build(stdin)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (f *partFlag) build(stdin io.Reader) (a2a.Part, error) {
	var p a2a.Part
	var err error
	switch f.kind {
	case "text":
		p, err = f.text(stdin)
	case "data":
		p, err = f.data(stdin)
	default:
		p, err = f.file(stdin)
	}
	if err != nil {
		return p, usagef("--%s: %w", f.kind, err)
	}
	if f.mediaType != nil {
		p.MediaType = *f.mediaType
	}
	return p, nil
}

func (f *partFlag) text(stdin io.Reader) (a2a.Part, error) {
	if f.value != "-" {
		return a2a.Text(strings.ToValidUTF8(f.value, "\uFFFD")), nil
	}
	data, err := readBounded(stdin)
	return a2a.Text(strings.ToValidUTF8(strings.TrimSuffix(string(data), "\n"), "\uFFFD")), err
}

func (f *partFlag) data(stdin io.Reader) (a2a.Part, error) {
	data := []byte(strings.TrimSpace(f.value))
	if !strings.HasPrefix(f.value, "{") && !strings.HasPrefix(f.value, "[") {
		var err error
		if data, err = readPart(f.value, stdin); err != nil {
			return a2a.Part{}, err
		}
	}
	value := a2a.JSON(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	if !value.IsValid() {
		return a2a.Part{}, errors.New("that is not JSON")
	}
	return a2a.Data(value), nil
}

func (f *partFlag) file(stdin io.Reader) (a2a.Part, error) {
	if u, err := url.Parse(f.value); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		name := path.Base(u.Path)
		if name == "." || name == "/" {
			name = ""
		}
		return a2a.URL(f.value, typeOfName(name), name), nil
	}
	data, err := readPart(f.value, stdin)
	if err != nil {
		return a2a.Part{}, err
	}
	name := ""
	if f.value != "-" {
		name = filepath.Base(f.value)
	}
	mediaType := typeOfName(name)
	if mediaType == "" {
		mediaType = plainType(http.DetectContentType(data))
	}
	return a2a.Raw(data, mediaType, name), nil
}

// readPart reads a file, or standard input for -.
func readPart(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return readBounded(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readBounded(file)
}

func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPartSize+1))
	if err == nil && len(data) > maxPartSize {
		err = fmt.Errorf("it has more than %d MiB; pass a large file as a URL", maxPartSize>>20)
	}
	return data, err
}

// typeOfName returns the media type of a file name, or "". The table of the
// system differs from one machine to the next, so that common types come first.
func typeOfName(name string) string {
	ext := strings.ToLower(path.Ext(name))
	switch ext {
	case ".txt", ".log":
		return "text/plain"
	case ".md":
		return "text/markdown"
	case ".csv":
		return "text/csv"
	case ".json":
		return "application/json"
	case ".yaml", ".yml":
		return "application/yaml"
	case ".zip":
		return "application/zip"
	}
	return plainType(mime.TypeByExtension(ext))
}

// plainType returns a media type without the charset that the standard library
// guesses.
func plainType(text string) string {
	t, _, _ := strings.Cut(text, ";")
	return strings.TrimSpace(t)
}

// withSkill returns the metadata of a message that names a skill. The rest
// keeps its bytes.
func withSkill(metadata a2a.JSON, skill string) (a2a.JSON, error) {
	if metadata != nil && (metadata.Kind() != '{' || !metadata.IsValid()) {
		return nil, usagef(`--metadata is not a JSON object such as '{"k":"v"}'`)
	}
	if skill == "" {
		return metadata, nil
	}
	member := append([]byte(`"skillId":`), quoteJSON(skill)...)
	if metadata == nil {
		return append(append(a2a.JSON("{"), member...), '}'), nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(metadata))
	_, _ = dec.ReadToken()
	empty := dec.PeekKind() == '}'
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, usagef("--metadata: %w", err)
		}
		if name.String() == "skillId" {
			return nil, usagef("--skill and a skillId in --metadata exclude each other")
		}
		if err := dec.SkipValue(); err != nil {
			return nil, usagef("--metadata: %w", err)
		}
	}
	out := append(append(a2a.JSON("{"), member...), ',')
	if empty {
		out = out[:len(out)-1]
	}
	return append(out, bytes.TrimSpace(metadata)[1:]...), nil
}

func quoteJSON(text string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	return quoted
}
