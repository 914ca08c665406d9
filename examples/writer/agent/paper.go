package main

import (
	"bytes"
	"compress/zlib"
	"io"
	"regexp"
	"strings"
)

// maxContent bounds what the streams of a PDF file unpack to, in bytes.
const maxContent = 8 << 20

var (
	stream = regexp.MustCompile(`(?s)stream\r?\n(.*?)\r?\nendstream`)
	shown  = regexp.MustCompile(`\(((?:[^()\\]|\\.)*)\)\s*(?:Tj|'|")|\[((?:[^\]\\]|\\.)*)\]\s*TJ`)
	piece  = regexp.MustCompile(`\(((?:[^()\\]|\\.)*)\)`)
	escape = regexp.MustCompile(`\\(.)`)
)

// textOf returns the text that the pages of a simple PDF file show: literal
// strings in streams that are plain or deflated.
func textOf(file []byte) string {
	var text strings.Builder
	left := int64(maxContent)
	for _, match := range stream.FindAllSubmatch(file, -1) {
		content := match[1]
		if r, err := zlib.NewReader(bytes.NewReader(content)); err == nil {
			// A stream that is damaged gives what precedes the damage.
			content, _ = io.ReadAll(io.LimitReader(r, left))
			left -= int64(len(content))
		}
		for _, operator := range shown.FindAllSubmatch(content, -1) {
			pieces := [][][]byte{{nil, operator[1]}}
			if len(operator[2]) > 0 {
				pieces = piece.FindAllSubmatch(operator[2], -1)
			}
			for _, p := range pieces {
				text.Write(escape.ReplaceAll(p[1], []byte("$1")))
			}
			text.WriteByte(' ')
		}
	}
	return strings.ToValidUTF8(text.String(), "?")
}

var sentenceEnd = regexp.MustCompile(`[.!?]\s+`)

// sentencesOf splits a text after full stops, exclamation and question marks.
func sentencesOf(text string) []string {
	text = strings.Join(strings.Fields(text), " ") + " "
	var sentences []string
	begin := 0
	for _, end := range sentenceEnd.FindAllStringIndex(text, -1) {
		sentences = append(sentences, strings.TrimSpace(text[begin:end[1]]))
		begin = end[1]
	}
	if rest := strings.TrimSpace(text[begin:]); rest != "" {
		sentences = append(sentences, rest)
	}
	return sentences
}

// paragraphsOf spreads a paper over n paragraphs and takes the first sentences
// of each; a paper that is short has fewer.
func paragraphsOf(sentences []string, n int) []string {
	const perParagraph = 3
	n = min(n, len(sentences))
	paragraphs := make([]string, n)
	for i := range paragraphs {
		part := sentences[i*len(sentences)/n : (i+1)*len(sentences)/n]
		paragraphs[i] = strings.Join(part[:min(len(part), perParagraph)], " ")
	}
	return paragraphs
}
