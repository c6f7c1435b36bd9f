package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// maxRequest is the Messages API's own limit on a request: 32 MB.
const maxRequest = 32 << 20

// oauthBeta is the beta header without which the API refuses the token of a
// subscription (Claude Code sends it whenever it has one).
const oauthBeta = "oauth-2025-04-20"

// Config says where requests go and as whom.
type Config struct {
	// Upstream is the model endpoint, https://api.anthropic.com or one that
	// speaks the same; a path in it is kept in front.
	Upstream *url.URL
	// APIKey is sent as x-api-key.
	APIKey string
	// AuthToken is sent as Bearer token where there is no APIKey.
	AuthToken string
	// RunToken is what the agent has to present, as x-api-key or Bearer token.
	RunToken string
	// Transport reaches the upstream; nil means http.DefaultTransport.
	Transport http.RoundTripper
}

// NewHandler makes the proxy of one run. A configuration without upstream, key
// or run token is refused with a *run.UserError.
func NewHandler(cfg Config) (http.Handler, error) {
	switch {
	case cfg.Upstream == nil || cfg.Upstream.Host == "" || (cfg.Upstream.Scheme != "https" && cfg.Upstream.Scheme != "http"):
		return nil, &run.UserError{Message: "the model endpoint is not an http or https address", Hint: "give it as https://host"}
	case cfg.Upstream.User != nil || cfg.Upstream.RawQuery != "" || cfg.Upstream.Fragment != "":
		return nil, &run.UserError{Message: "the model endpoint holds more than scheme, host and path", Hint: "give it as https://host/path"}
	case cfg.APIKey == "" && cfg.AuthToken == "":
		return nil, &run.UserError{Message: "there is no key for the model endpoint", Hint: "set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"}
	case cfg.RunToken == "":
		return nil, errors.New("gateway: no run token")
	}
	upstream := *cfg.Upstream
	if upstream.Path == "" {
		upstream.Path = "/" // JoinPath on no path at all gives a relative one
	}
	proxy := &httputil.ReverseProxy{
		Transport: cfg.Transport,
		// Flush at once: an agent's idle clock watches the stream.
		FlushInterval: -1,
		Rewrite: func(pr *httputil.ProxyRequest) {
			out := pr.Out
			target := upstream.JoinPath(pr.In.URL.Path) // one of two, see below
			target.RawQuery = pr.In.URL.RawQuery
			out.URL, out.Host = target, ""
			out.Header = forward(pr.In.Header)
			if cfg.APIKey != "" {
				out.Header.Set("X-Api-Key", cfg.APIKey)
				return
			}
			out.Header.Set("Authorization", "Bearer "+cfg.AuthToken)
			if beta := out.Header.Values("Anthropic-Beta"); !strings.Contains(strings.Join(beta, ","), oauthBeta) {
				out.Header.Set("Anthropic-Beta", strings.Join(append(slices.Clone(beta), oauthBeta), ","))
			}
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Set-Cookie")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				writeError(w, http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("a request may have at most %d bytes", maxRequest))
				return
			}
			writeError(w, http.StatusBadGateway, "api_error", "the model endpoint cannot be reached: "+err.Error())
		},
		// What breaks off mid-stream is the agent's to report.
		ErrorLog: log.New(io.Discard, "", 0),
	}

	want := sha256.Sum256([]byte(cfg.RunToken))
	guarded := func(w http.ResponseWriter, r *http.Request) {
		if !presents(r, want) {
			writeError(w, http.StatusBadRequest, "invalid_request_error", "this run's token is missing or wrong")
			return
		}
		if r.ContentLength > maxRequest {
			writeError(w, http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("a request may have at most %d bytes", maxRequest))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		proxy.ServeHTTP(w, r)
	}

	// Not a ServeMux: that one answers unclean paths with a redirect.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && (r.URL.Path == "/v1/messages" || r.URL.Path == "/v1/messages/count_tokens"):
			guarded(w, r)
		case r.URL.Path == "/" && (r.Method == http.MethodHead || r.Method == http.MethodGet):
			// Claude Code asks HEAD / to warm up its connection.
			w.WriteHeader(http.StatusOK)
		default:
			writeError(w, http.StatusNotFound, "not_found_error", "this gateway does not offer "+r.Method+" on that path")
		}
	}), nil
}

// presents says whether the request carries the token with that digest. The
// digests have one length and are compared in constant time.
func presents(r *http.Request, want [sha256.Size]byte) bool {
	given := []string{r.Header.Get("X-Api-Key")}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		given = append(given, token)
	}
	found := 0
	for _, g := range given {
		got := sha256.Sum256([]byte(g))
		found |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return found == 1
}

// forward picks the headers the API knows. Everything else stays behind: the
// agent's credentials, cookies, hop-by-hop headers, and whatever names another
// account, host or client.
func forward(in http.Header) http.Header {
	out := http.Header{}
	for name, values := range in {
		switch {
		case name == "Accept", name == "Content-Type", name == "User-Agent", name == "X-App",
			name == "Anthropic-Version", name == "Anthropic-Beta",
			name == "Anthropic-Dangerous-Direct-Browser-Access",
			name == "X-Claude-Code-Session-Id",
			strings.HasPrefix(name, "X-Stainless-"):
			out[name] = slices.Clone(values)
		}
	}
	// Uncompressed, so that nothing on the way waits for a block to fill up.
	out.Set("Accept-Encoding", "identity")
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""} // or the transport would add its own
	}
	return out
}

// writeError answers in the API's own form, so that the text reaches the result
// of the agent.
func writeError(w http.ResponseWriter, status int, kind, message string) {
	body, err := json.Marshal(map[string]any{
		"type":  "error",
		"error": map[string]string{"type": kind, "message": message},
	})
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is its own loss
}
