// Command scripted is a model that follows a script: it has the API of chat
// completions, streams included, and needs neither an account nor a network. It looks
// at the stock, asks the supplier for what is missing, and says what came of it.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// request is what of a request the script looks at.
type request struct {
	Stream   bool      `json:"stream"`
	Messages []message `json:"messages"`
	Tools    []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// answer is what the model says: words, or a call.
type answer struct {
	text      string
	function  string
	arguments map[string]any
}

var (
	article = regexp.MustCompile(`[A-Z]{3}-\d{4}`)
	units   = regexp.MustCompile(`\b\d{1,3}(?:,\d{3})*\b|\b\d+\b`)
	inSBY   = regexp.MustCompile(`"SBY":(\d+)`)
)

// follow is the script. It goes by what the conversation has, as a model does.
func follow(q *request) answer {
	var user string
	var results []string
	for _, m := range q.Messages {
		switch m.Role {
		case "user":
			user, results = m.Content, nil
		case "tool":
			results = append(results, m.Content)
		}
	}
	sku := article.FindString(user)
	wanted := number(units.FindString(article.ReplaceAllString(user, "")))
	switch {
	case strings.Contains(strings.ToLower(user), "recount") && len(results) == 0:
		return answer{function: q.called("recount"), arguments: map[string]any{"warehouse": "SBY"}}
	case strings.Contains(strings.ToLower(user), "recount"):
		return answer{text: "Of the recount: " + results[0]}
	case sku == "":
		return answer{text: "Ask me for an article, such as BRG-0042, and how many you need."}
	case len(results) == 0:
		return answer{text: "I look at the stock first.", function: q.called("get_stock_level"), arguments: map[string]any{"sku": sku}}
	}
	there := 0
	if match := inSBY.FindStringSubmatch(results[0]); match != nil {
		there = number(match[1])
	}
	missing := wanted - there
	switch {
	case missing <= 0:
		return answer{text: fmt.Sprintf("There are %d of %s in Surabaya, which is enough.", there, sku)}
	case len(results) == 1:
		return answer{function: q.called("ask_supplier"), arguments: map[string]any{"message": fmt.Sprintf("Please quote %d units of %s", missing, sku), "skill": "quote"}}
	}
	_, quote, _ := strings.Cut(results[1], "[quote]\n")
	return answer{text: fmt.Sprintf("There are %d of %s in Surabaya, so that %d are missing. The supplier quotes %s.", there, sku, missing, cmp.Or(quote, "nothing: "+results[1]))}
}

func number(text string) int {
	n := 0
	_, _ = fmt.Sscan(strings.ReplaceAll(text, ",", ""), &n) // what is none is 0
	return n
}

// called returns the function whose name ends so.
func (q *request) called(name string) string {
	for _, t := range q.Tools {
		if strings.HasSuffix(t.Function.Name, name) {
			return t.Function.Name
		}
	}
	return name
}

func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return `""`
	}
	return string(text)
}

func serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
	var q request
	if err != nil || json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		http.Error(w, `{"error":{"message":"The request is none","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	a := follow(&q)
	finish := "stop"
	if a.function != "" {
		finish = "tool_calls"
	}
	id := fmt.Sprintf("call_%d", len(q.Messages))
	used := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, len(body)/4, 20+len(a.text)/4, len(body)/4+20+len(a.text)/4)
	if !q.Stream {
		calls := ""
		if a.function != "" {
			calls = `,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":` + quoted(a.function) + `,"arguments":` + quoted(quoted(a.arguments)) + `}}]`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"scripted","choices":[{"index":0,"message":{"role":"assistant","content":%s%s},"finish_reason":%q}],"usage":%s}`, quoted(a.text), calls, finish, used)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(choices, usage string) {
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"scripted\",\"choices\":[%s],\"usage\":%s}\n\n", choices, usage)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	delta := func(d, finish string) {
		send(`{"index":0,"delta":`+d+`,"finish_reason":`+finish+`}`, "null")
	}
	delta(`{"role":"assistant","content":""}`, "null")
	for _, word := range strings.SplitAfter(a.text, " ") {
		delta(`{"content":`+quoted(word)+`}`, "null")
		select {
		case <-time.After(20 * time.Millisecond): // as if it thought
		case <-r.Context().Done():
			return
		}
	}
	if a.function != "" {
		delta(`{"tool_calls":[{"index":0,"id":"`+id+`","type":"function","function":{"name":`+quoted(a.function)+`,"arguments":`+quoted(quoted(a.arguments))+`}}]}`, "null")
	}
	delta(`{}`, `"`+finish+`"`)
	send("", used)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func run() error {
	address := flag.String("listen", "127.0.0.1:8081", "where it listens")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", serve)
	slog.Info("The model is ready", "address", listener.Addr().String())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		slog.Error("The model cannot be served", "error", err)
		os.Exit(1)
	}
}
