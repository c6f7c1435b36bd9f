package agenttest

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/agent"
)

// maxBody is the Messages API's own limit on a request: 32 MB.
const maxBody = 32 << 20

type object = map[string]any

// api is how one API lays out requests and answers.
type api interface {
	// read gives the conversation of a request. The error is for the client.
	read(r *http.Request, body []byte) (Turn, bool, error)
	// whole is the answer to a request without streaming.
	whole(model string, r Reply) object
	// stream sends the answer as server-sent events.
	stream(e *events, model string, r Reply)
	// failure is the body of an error.
	failure(r Reply) object
}

// Request is one recorded request.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Model               string
	Body                []byte
}

// Server is the model as an http.Handler.
type Server struct {
	// APIKey, if set, is the only key accepted, in the header of the API or as
	// Bearer token. It may not change once the server serves.
	APIKey string

	script Script

	mu       sync.Mutex
	requests []Request
}

// NewModel makes a server that answers as script says, on the paths of all APIs.
func NewModel(script Script) *Server { return &Server{script: script} }

// Requests returns the requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// apiOf is the API that a path belongs to. An unknown one is told in the words of
// Messages.
func apiOf(path string) (a api, known bool) {
	switch {
	case path == "/v1/messages":
		return messages{}, true
	case path == "/v1/responses":
		return responses{}, true
	case path == "/v1/chat/completions":
		return chat{}, true
	case strings.HasPrefix(path, "/v1beta/models/"):
		_, method, _ := strings.Cut(path, ":")
		return generate{}, method == "generateContent" || method == "streamGenerateContent"
	default:
		return messages{}, false
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, known := apiOf(r.URL.Path)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, a, Fail(http.StatusRequestEntityTooLarge, "request too large"))
		return
	}
	turn, streamed, wrong := a.read(r, body)
	s.mu.Lock()
	s.requests = append(s.requests, Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Header: r.Header.Clone(), Model: turn.Model, Body: body,
	})
	s.mu.Unlock()

	switch {
	case r.URL.Path == "/" && (r.Method == http.MethodHead || r.Method == http.MethodGet):
		w.WriteHeader(http.StatusOK)
		return
	case r.Method != http.MethodPost:
		writeError(w, a, Fail(http.StatusMethodNotAllowed, "Method Not Allowed"))
		return
	case s.APIKey != "" && !presents(r, s.APIKey):
		writeError(w, a, Fail(http.StatusUnauthorized, "invalid x-api-key"))
		return
	case r.URL.Path == "/v1/messages/count_tokens":
		writeJSON(w, http.StatusOK, object{"input_tokens": len(body)/4 + 1})
		return
	case strings.HasSuffix(r.URL.Path, ":countTokens"):
		writeJSON(w, http.StatusOK, object{"totalTokens": len(body)/4 + 1})
		return
	case !known:
		writeError(w, a, Fail(http.StatusNotFound, "Not found"))
		return
	case wrong != nil:
		writeError(w, a, Fail(http.StatusBadRequest, wrong.Error()))
		return
	}
	reply := s.script(turn)
	switch {
	case reply.Status >= 400:
		writeError(w, a, reply)
	case streamed:
		a.stream(newEvents(w), turn.Model, reply)
	default:
		writeJSON(w, http.StatusOK, a.whole(turn.Model, reply))
	}
}

func presents(r *http.Request, key string) bool {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, got := range []string{r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), bearer} {
		if subtle.ConstantTimeCompare([]byte(got), []byte(key)) == 1 {
			return true
		}
	}
	return false
}

// talk is a conversation while it is read.
type talk struct {
	turn    Turn
	prompt  []string
	waiting map[string]bool // tool calls that are not answered yet
	answer  bool            // the last entry was the model's
}

// user is something the user says.
func (t *talk) user(text string) {
	if t.turn.Number == 0 && text != "" {
		t.prompt = append(t.prompt, text)
	}
	t.answer, t.turn.Results = false, nil
}

// model is a part of an answer of the model; parts that follow each other are of
// one answer.
func (t *talk) model() {
	if !t.answer {
		t.turn.Number++
	}
	t.answer, t.turn.Results = true, nil
}

// call is a tool call in an answer of the model.
func (t *talk) call(id string) {
	t.model()
	if t.waiting == nil {
		t.waiting = map[string]bool{}
	}
	t.waiting[id] = true
}

// result is the answer to a tool call.
func (t *talk) result(id string, r ToolResult) error {
	if !t.waiting[id] {
		return fmt.Errorf("no tool call found for the output of %q", id)
	}
	delete(t.waiting, id)
	t.answer, t.turn.Results = false, append(t.turn.Results, r)
	return nil
}

// done is the turn at the end of the conversation.
func (t *talk) done(model string) (Turn, error) {
	t.turn.Model = model
	t.turn.Prompt = strings.Join(t.prompt, "\n")
	t.turn.Assignment = agent.ReadAssignment(t.turn.Prompt)
	for id := range t.waiting {
		return t.turn, fmt.Errorf("no tool output found for the call %q", id)
	}
	return t.turn, nil
}

// chunk is how many bytes of text or tool input one delta carries: small, so
// that a client has to put them together.
const chunk = 24

// pieces cuts s into parts of about chunk bytes without cutting a character.
func pieces(s string) []string {
	var parts []string
	start := 0
	for i := range s {
		if i-start >= chunk {
			parts = append(parts, s[start:i])
			start = i
		}
	}
	return append(parts, s[start:])
}

func newID(prefix string) string { return prefix + rand.Text() }

func usage(r Reply) (in, out int64) {
	in, out = r.InputTokens, r.OutputTokens
	if in == 0 {
		in = 100
	}
	if out == 0 {
		out = 20
	}
	return in, out
}

// input is the input of a tool call as JSON.
func (t ToolUse) input() string {
	b, err := json.Marshal(t.Input)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// events sends server-sent events, flushed one by one. A client that went away
// ends them.
type events struct {
	w    http.ResponseWriter
	gone bool
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Request-Id", newID("req_"))
	return &events{w: w}
}

// send sends one event; one without a name has only data.
func (e *events) send(name string, v object) {
	data, err := json.Marshal(v)
	if err != nil {
		return
	}
	if name != "" {
		e.raw("event: " + name + "\n")
	}
	e.raw("data: " + string(data) + "\n\n")
}

func (e *events) raw(s string) {
	if e.gone {
		return
	}
	_, err := io.WriteString(e.w, s)
	if err == nil && strings.HasSuffix(s, "\n\n") {
		err = http.NewResponseController(e.w).Flush()
	}
	e.gone = err != nil
}

func writeError(w http.ResponseWriter, a api, r Reply) {
	maps.Copy(w.Header(), r.Header)
	w.Header().Set("Request-Id", newID("req_"))
	writeJSON(w, r.Status, a.failure(r))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a client that went away is its own loss
}
