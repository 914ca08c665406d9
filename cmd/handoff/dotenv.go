package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxDotenv bounds a .env file, in bytes.
const maxDotenv = 1 << 20

// dotenv is the settings of one .env file: what begins with A2ACLI_.
type dotenv struct {
	path   string
	values map[string]string
	bad    []int // the numbers of lines that set nothing
}

// readDotenv reads a .env file. Of lines that set other variables it reads
// nothing, since the file may belong to another program as well.
func readDotenv(path string) (*dotenv, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDotenv+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > maxDotenv {
		return nil, fmt.Errorf("read configuration: %s has more than %d bytes", path, maxDotenv)
	}
	values, bad, err := parseDotenv(string(data))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %s: %w", path, err)
	}
	return &dotenv{path: path, values: values, bad: bad}, nil
}

// parseDotenv reads KEY=value lines. A value may stand in single quotes, as it
// is, or in double quotes with the escapes \n, \t, \" and \\; behind a value
// without quotes a # after a blank begins a comment. The numbers are of lines
// that set nothing.
func parseDotenv(text string) (values map[string]string, bad []int, err error) {
	values = map[string]string{}
	number := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		number++
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		if !strings.HasPrefix(line, envPrefix) {
			if line != "" && line[0] != '#' && !strings.Contains(line, "=") {
				bad = append(bad, number)
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, nil, fmt.Errorf("line %d: there is no = after %s", number, line)
		}
		value, err := dotenvValue(strings.TrimSpace(value))
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", number, err)
		}
		values[strings.TrimSpace(key)] = value
	}
	return values, bad, nil
}

func dotenvValue(text string) (string, error) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		for i := 1; i < len(text); i++ {
			if text[i] == '#' && (text[i-1] == ' ' || text[i-1] == '\t') {
				text = text[:i]
				break
			}
		}
		return strings.TrimSpace(text), nil
	}
	quote := text[0]
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return b.String(), nil
		case c == '\\' && quote == '"' && i+1 < len(text):
			i++
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '"', '\\', '$':
				b.WriteByte(text[i])
			default:
				b.WriteString(text[i-1 : i+1])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("the quote %c is not closed", quote)
}

// exposed reports whether others may read the file, and it holds a secret.
func (d *dotenv) exposed() bool {
	if runtime.GOOS == "windows" {
		return false
	}
	secret := false
	for _, name := range secretSettings {
		secret = secret || d.values[envName(name)] != ""
	}
	info, err := os.Stat(d.path)
	return secret && err == nil && info.Mode().Perm()&0o077 != 0
}

// globalDotenv returns the settings of the person, or nil when there are none.
func (a *app) globalDotenv() (*dotenv, error) {
	home, ok := a.lookupEnv("HOME")
	if !ok || home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return nil, nil
		}
	}
	return optionalDotenv(filepath.Join(home, ".config", "a2a-cli", ".env"))
}

// localDotenv returns the settings of the .env file in the working directory or
// the nearest one above it, or nil when there is none.
func localDotenv() (*dotenv, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find working directory: %w", err)
	}
	for {
		d, err := optionalDotenv(filepath.Join(dir, ".env"))
		if d != nil || err != nil {
			return d, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, nil
		}
		dir = parent
	}
}

// optionalDotenv reads a file that need not be there.
func optionalDotenv(path string) (*dotenv, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, nil // such as a virtual environment of Python
	}
	d, err := readDotenv(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return d, err
}
