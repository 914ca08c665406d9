package main

import (
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFileName bounds the name of a saved file, in bytes.
const maxFileName = 120

// reservedName are names that Windows gives to devices, with any ending.
var reservedName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])$`)

// safeName makes a file name of what an agent calls a file. It names a file in
// the directory that it is saved to and nowhere else, is not hidden, and is
// valid on every system; "" when nothing is left.
func safeName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return -1
		case strings.ContainsRune(`<>:"|?*`, r):
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	name = strings.TrimLeft(name, ". ")
	name = strings.TrimRight(name, ". ")
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if first, _, _ := strings.Cut(name, "."); reservedName.MatchString(strings.TrimSpace(first)) {
		stem = "_" + stem
	}
	if len(ext) > 20 {
		stem, ext = name, ""
	}
	if room := maxFileName - len(ext); len(stem) > room {
		stem = strings.ToValidUTF8(stem[:room], "")
	}
	return stem + ext
}

// extensions are the endings of files whose media type says more than the
// kind of their part.
var extensions = map[string]string{
	"text/plain":              ".txt",
	"text/markdown":           ".md",
	"text/html":               ".html",
	"text/csv":                ".csv",
	"application/json":        ".json",
	"application/pdf":         ".pdf",
	"application/xml":         ".xml",
	"application/yaml":        ".yaml",
	"application/zip":         ".zip",
	"image/gif":               ".gif",
	"image/jpeg":              ".jpg",
	"image/png":               ".png",
	"image/svg+xml":           ".svg",
	"image/webp":              ".webp",
	"audio/mpeg":              ".mp3",
	"audio/wav":               ".wav",
	"video/mp4":               ".mp4",
	"application/schema+json": ".json",
}

// extensionOf returns the ending of a file of that media type, or otherwise.
func extensionOf(mediaType, otherwise string) string {
	if ext, ok := extensions[strings.ToLower(plainType(mediaType))]; ok {
		return ext
	}
	return otherwise
}
