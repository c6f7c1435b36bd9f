package agenttest

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/run"
)

// maxBody is the API's own limit on a request (32 MB for Messages).
const maxBody = 32 << 20

// Script decides how the model answers one request.
type Script func(Turn) Reply

// Turn is a conversation as it stands when the model is asked to go on.
type Turn struct {
	// Model is the model the client asked for.
	Model string
	// Assignment is read from the prompt.
	agent.Assignment
	// Prompt is all text of the first user message.
	Prompt string
	// Number counts the model's answers so far: 0 on the first request.
	Number int
	// Tools are the names of the tools the client offers, in its order. Side
	// requests of a CLI (a title for the session) offer none.
	Tools []string
	// Results are the answers to the tool calls of the turn before.
	Results []ToolResult
}

// ToolResult is what a tool call gave.
type ToolResult struct {
	Text    string
	IsError bool
}

// Reply is one answer of the model: text and tool calls, or an error.
type Reply struct {
	Text  string
	Tools []ToolUse

	// Status of 400 and above makes the reply an error with ErrorType,
	// Message and Header. 0 means 200.
	Status    int
	ErrorType string
	Message   string
	Header    http.Header

	// InputTokens and OutputTokens are reported as usage; 0 becomes 100 and 20.
	InputTokens, OutputTokens int64
}

// ToolUse is one call of a tool of the client.
type ToolUse struct {
	Name  string
	Input map[string]any
}

// Say ends the conversation with a text.
func Say(text string) Reply { return Reply{Text: text} }

// Bash makes the client run a shell command in its work tree.
func Bash(command string) Reply {
	return Reply{Tools: []ToolUse{{
		Name:  "Bash",
		Input: map[string]any{"command": command, "description": "Run a scripted command"},
	}}}
}

// Write makes the client write a file. The real CLI wants an absolute path.
func Write(path, content string) Reply {
	return Reply{Tools: []ToolUse{{
		Name:  "Write",
		Input: map[string]any{"file_path": path, "content": content},
	}}}
}

// Fail refuses the request the way the API does: 400 invalid_request_error,
// 401 authentication_error, 429 rate_limit_error, 529 overloaded_error and so on.
func Fail(status int, message string) Reply {
	return Reply{Status: status, ErrorType: errorType(status), Message: message}
}

// PlanKey names the replies for a prompt in plan mode in Play.
const PlanKey = "plan"

// Play answers the n-th turn about a task with the n-th of its replies; the
// last one repeats. Plan mode has the key PlanKey, anything else "".
func Play(replies map[string][]Reply) Script {
	return func(t Turn) Reply {
		if len(t.Tools) == 0 {
			return Say("ok")
		}
		key := t.Task
		if t.Mode == run.ModePlan {
			key = PlanKey
		}
		list, ok := replies[key]
		if !ok {
			list = replies[""]
		}
		if len(list) == 0 {
			return Fail(http.StatusBadRequest, fmt.Sprintf("the script has no reply for %q", key))
		}
		return list[min(t.Number, len(list)-1)]
	}
}

// Request is one recorded request.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Model               string
	Body                []byte
}

// Server is the API as an http.Handler.
type Server struct {
	// APIKey, if set, is the only key accepted, as x-api-key or Bearer token.
	// It may not change once the server serves.
	APIKey string

	script Script

	mu       sync.Mutex
	requests []Request
}

// NewMessagesAPI makes a server that answers as script says.
func NewMessagesAPI(script Script) *Server { return &Server{script: script} }

// Requests returns the requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// The request as far as the server looks at it.
type messagesRequest struct {
	Model     string    `json:"model"`
	MaxTokens int64     `json:"max_tokens"`
	Stream    bool      `json:"stream"`
	Messages  []message `json:"messages"`
	Tools     []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a list of blocks; a plain string means one text block.
type content []block

func (c *content) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	var blocks []block
	if err := json.Unmarshal(b, &blocks); err != nil {
		return err
	}
	*c = blocks
	return nil
}

type block struct {
	Type      string  `json:"type"`
	Text      string  `json:"text"`
	ID        string  `json:"id"`
	ToolUseID string  `json:"tool_use_id"`
	Content   content `json:"content"`
	IsError   bool    `json:"is_error"`
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, Fail(http.StatusRequestEntityTooLarge, "request too large"))
		return
	}
	var req messagesRequest
	decodeErr := json.Unmarshal(body, &req)
	s.mu.Lock()
	s.requests = append(s.requests, Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Header: r.Header.Clone(), Model: req.Model, Body: body,
	})
	s.mu.Unlock()

	if r.URL.Path == "/" && (r.Method == http.MethodHead || r.Method == http.MethodGet) {
		w.WriteHeader(http.StatusOK)
		return
	}
	if r.Method != http.MethodPost {
		writeError(w, Fail(http.StatusMethodNotAllowed, "Method Not Allowed"))
		return
	}
	if s.APIKey != "" && !presents(r, s.APIKey) {
		writeError(w, Fail(http.StatusUnauthorized, "invalid x-api-key"))
		return
	}
	switch r.URL.Path {
	case "/v1/messages":
		if why := check(r, req, decodeErr); why != "" {
			writeError(w, Fail(http.StatusBadRequest, why))
			return
		}
		reply := s.script(turn(req))
		switch {
		case reply.Status >= 400:
			writeError(w, reply)
		case req.Stream:
			stream(w, req.Model, reply)
		default:
			writeJSON(w, http.StatusOK, whole(req.Model, reply))
		}
	case "/v1/messages/count_tokens":
		writeJSON(w, http.StatusOK, map[string]any{"input_tokens": len(body)/4 + 1})
	default:
		writeError(w, Fail(http.StatusNotFound, "Not found"))
	}
}

func presents(r *http.Request, key string) bool {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, got := range []string{r.Header.Get("X-Api-Key"), bearer} {
		if subtle.ConstantTimeCompare([]byte(got), []byte(key)) == 1 {
			return true
		}
	}
	return false
}

// check says what is wrong with a request, or "".
func check(r *http.Request, req messagesRequest, decodeErr error) string {
	switch {
	case decodeErr != nil:
		return "the request body is not valid JSON: " + decodeErr.Error()
	case r.Header.Get("Anthropic-Version") == "":
		return "anthropic-version: header is required"
	case req.Model == "":
		return "model: Field required"
	case req.MaxTokens < 1:
		return "max_tokens: Field required"
	case len(req.Messages) == 0:
		return "messages: at least one message is required"
	case req.Messages[0].Role != "user":
		return "messages: first message must use the user role"
	}
	for i, m := range req.Messages {
		answered := map[string]bool{}
		if i+1 < len(req.Messages) {
			for _, b := range req.Messages[i+1].Content {
				answered[b.ToolUseID] = true
			}
		}
		for _, b := range m.Content {
			if b.Type == "tool_use" && !answered[b.ID] {
				return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i, b.ID)
			}
		}
	}
	return ""
}

func turn(req messagesRequest) Turn {
	t := Turn{Model: req.Model}
	for _, tool := range req.Tools {
		t.Tools = append(t.Tools, tool.Name)
	}
	var prompt []string
	for _, m := range req.Messages {
		if m.Role == "assistant" {
			t.Number++
		} else if t.Number == 0 {
			prompt = append(prompt, texts(m.Content))
		}
	}
	t.Prompt = strings.Join(prompt, "\n")
	t.Assignment = agent.ReadAssignment(t.Prompt)
	for _, b := range req.Messages[len(req.Messages)-1].Content {
		if b.Type == "tool_result" {
			t.Results = append(t.Results, ToolResult{Text: texts(b.Content), IsError: b.IsError})
		}
	}
	return t
}

func texts(c content) string {
	var parts []string
	for _, b := range c {
		if b.Type == "text" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

func errorType(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_request_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case 529: // the API's own status for overload
		return "overloaded_error"
	default:
		if status >= 500 {
			return "api_error"
		}
		return "invalid_request_error"
	}
}
