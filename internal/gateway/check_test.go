package gateway

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

func TestCheckAsksWithTheKey(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		good := map[string]bool{
			"/v1/models":     r.Header.Get("X-Api-Key") == "good" && r.Header.Get("Anthropic-Version") != "",
			"/models":        r.Header.Get("Authorization") == "Bearer good",
			"/v1beta/models": r.Header.Get("X-Goog-Api-Key") == "good",
		}
		known, ok := good[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
		case known:
		case r.URL.Path == "/v1beta/models":
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []run.Provider{run.ProviderAnthropic, run.ProviderOpenAI, run.ProviderGoogle} {
		if err := (Upstream{Provider: p, BaseURL: base, APIKey: "good"}).Check(t.Context()); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		err := Upstream{Provider: p, BaseURL: base, APIKey: "bad"}.Check(t.Context())
		if _, ok := errors.AsType[*run.UserError](err); !ok {
			t.Errorf("%s: a bad key: %v", p, err)
		}
		if err := (Upstream{Provider: p, BaseURL: base.JoinPath("elsewhere"), APIKey: "bad"}).Check(t.Context()); err != nil {
			t.Errorf("%s: an endpoint without a list: %v", p, err)
		}
	}
	server.Close()
	err = Upstream{Provider: run.ProviderOpenAI, BaseURL: base, APIKey: "good"}.Check(t.Context())
	if _, ok := errors.AsType[*run.UserError](err); !ok {
		t.Errorf("nobody there: %v", err)
	}
}
