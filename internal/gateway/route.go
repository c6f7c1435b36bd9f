package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/run"
)

// form is how the requests and answers of a call are laid out.
type form int

const (
	formMessages  form = iota // Anthropic Messages
	formResponses             // OpenAI Responses
	formChat                  // OpenAI Chat Completions
	formGenerate              // Gemini generateContent
)

// call is a request as far as its line says what it is.
type call struct {
	provider run.Provider
	form     form
	// path is joined to the upstream's.
	path string
	// query is what is passed on of the query.
	query string
	// model is the one that the path names, if it does.
	model string
	// free: it costs nothing.
	free bool
}

// geminiPath is PREFIX/models/{model}:{method}.
var geminiPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/v1beta/models/([A-Za-z0-9][A-Za-z0-9._-]{0,99}):(generateContent|streamGenerateContent|countTokens)$`)
})

// route says what a request asks for; ok is false for what is not offered.
func route(r *http.Request) (c call, ok bool) {
	keep := func(names ...string) string {
		given, kept := r.URL.Query(), url.Values{}
		for _, name := range names {
			if v := given.Get(name); v != "" {
				kept.Set(name, v)
			}
		}
		return kept.Encode()
	}
	path := r.URL.Path
	switch r.Method + " " + path {
	case "POST /v1/messages":
		return call{provider: run.ProviderAnthropic, form: formMessages, path: path, query: keep("beta")}, true
	case "POST /v1/messages/count_tokens":
		return call{provider: run.ProviderAnthropic, form: formMessages, path: path, query: keep("beta"), free: true}, true
	// The base address of this API ends in the version, in its clients' settings
	// as in ours.
	case "POST /v1/responses":
		return call{provider: run.ProviderOpenAI, form: formResponses, path: "/responses"}, true
	case "POST /v1/chat/completions":
		return call{provider: run.ProviderOpenAI, form: formChat, path: "/chat/completions"}, true
	case "GET /v1/models":
		return call{provider: run.ProviderOpenAI, form: formResponses, path: "/models", free: true}, true
	}
	m := geminiPath().FindStringSubmatch(path)
	if m == nil || r.Method != http.MethodPost {
		return call{}, false
	}
	c = call{
		provider: run.ProviderGoogle, form: formGenerate, path: path, query: keep("alt"), model: m[1],
		free: m[2] == "countTokens",
	}
	return c, true
}

// provider guesses whose client sent a request that is not offered, so that it
// understands the refusal.
func provider(r *http.Request) run.Provider {
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1beta/") || r.Header.Get("X-Goog-Api-Key") != "":
		return run.ProviderGoogle
	case r.Header.Get("X-Api-Key") != "" || r.Header.Get("Anthropic-Version") != "":
		return run.ProviderAnthropic
	case r.Header.Get("Authorization") != "":
		return run.ProviderOpenAI
	default:
		return run.ProviderAnthropic
	}
}

// presented are the credentials of a request, in all the places where the APIs'
// clients put them.
func presented(r *http.Request) []string {
	var given []string
	for _, v := range []string{r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key")} {
		if v != "" {
			given = append(given, v)
		}
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		given = append(given, token)
	}
	return given
}

// oauthBeta is the beta header without which the API refuses the token of a
// subscription (Claude Code sends it whenever it has one).
const oauthBeta = "oauth-2025-04-20"

// header makes the headers for an upstream: those of the agent that the API
// knows, and the real credential. Everything else stays behind: the agent's
// credentials, cookies, hop-by-hop headers, and whatever names another account,
// host or client.
func (u Upstream) header(in http.Header) http.Header {
	out := http.Header{}
	for name, values := range in {
		if passes(u.Provider, name) {
			out[name] = append([]string(nil), values...)
		}
	}
	// Uncompressed, so that nothing on the way waits for a block to fill up, and
	// that the use can be read.
	out.Set("Accept-Encoding", "identity")
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""} // or the transport would add its own
	}
	switch {
	case u.AuthHeader != "":
		out.Set(u.AuthHeader, cmp.Or(u.APIKey, u.AuthToken))
	case u.APIKey == "":
		out.Set("Authorization", "Bearer "+u.AuthToken)
		if u.Account != "" {
			out.Set("Chatgpt-Account-Id", u.Account)
		}
		if u.Provider != run.ProviderAnthropic {
			break
		}
		if beta := strings.Join(out.Values("Anthropic-Beta"), ","); !strings.Contains(beta, oauthBeta) {
			out.Set("Anthropic-Beta", strings.TrimPrefix(beta+","+oauthBeta, ","))
		}
	case u.Provider == run.ProviderOpenAI:
		out.Set("Authorization", "Bearer "+u.APIKey)
	case u.Provider == run.ProviderGoogle:
		out.Set("X-Goog-Api-Key", u.APIKey)
	default:
		out.Set("X-Api-Key", u.APIKey)
	}
	return out
}

func passes(p run.Provider, name string) bool {
	switch name {
	case "Accept", "Content-Type", "User-Agent":
		return true
	}
	switch p {
	case run.ProviderAnthropic:
		switch name {
		case "X-App", "Anthropic-Version", "Anthropic-Beta", "Anthropic-Dangerous-Direct-Browser-Access",
			"X-Claude-Code-Session-Id":
			return true
		}
		return strings.HasPrefix(name, "X-Stainless-")
	case run.ProviderOpenAI:
		switch name {
		case "Openai-Beta", "Originator", "Session_id", "Session-Id", "Conversation_id":
			return true
		}
		return strings.HasPrefix(name, "X-Stainless-")
	case run.ProviderGoogle:
		return name == "X-Goog-Api-Client"
	default:
		return false
	}
}

// writeError answers in the API's own form, so that the text reaches the result
// of the agent.
func writeError(w http.ResponseWriter, p run.Provider, status int, message string) {
	body, err := errorBody(p, status, message)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is its own loss
}

// errorBody is an error in the form of an API.
func errorBody(p run.Provider, status int, message string) ([]byte, error) {
	kind, state := "invalid_request_error", "FAILED_PRECONDITION"
	if status >= http.StatusInternalServerError {
		kind, state = "api_error", "UNAVAILABLE"
	}
	var answer any
	switch p {
	case run.ProviderOpenAI:
		answer = map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": nil}}
	case run.ProviderGoogle:
		answer = map[string]any{"error": map[string]any{"code": status, "message": message, "status": state}}
	default:
		answer = map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}}
	}
	return json.Marshal(answer)
}
