package ghsim_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/ghsim"
)

// postForm posts a form as a browser would, and does not follow where it leads.
func postForm(t *testing.T, to string, form url.Values) (*http.Response, string) {
	t.Helper()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, to,
		strings.NewReader(form.Encode())))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must[*http.Response](t)(client.Do(req))
	defer func() { _ = resp.Body.Close() }()
	return resp, string(must[[]byte](t)(io.ReadAll(resp.Body)))
}

const goodManifest = `{"name":"Our Bot","url":"https://example.com","hook_attributes":{"url":"https://example.com/hook"},"redirect_url":"http://127.0.0.1:1/back?x=1","default_permissions":{"issues":"write"},"default_events":["issues"]}`

// manifestCode makes an App of a manifest and gives the code for it.
func manifestCode(t *testing.T, w *world) string {
	t.Helper()
	resp, body := postForm(t, w.URL()+"/settings/apps/create",
		url.Values{"manifest": {goodManifest}, "state": {"s&t"}, "owner": {"ann"}, "name": {"Our Bot"}})
	to := must[*url.URL](t)(resp.Location())
	if q := to.Query(); to.Host != "127.0.0.1:1" || q.Get("x") != "1" || q.Get("state") != "s&t" || q.Get("code") == "" {
		t.Fatalf("sent to %s: %s", to, body)
	}
	return to.Query().Get("code")
}

func TestAppOfAManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	resp, page := postForm(t, w.URL()+"/settings/apps/new?state=s", url.Values{"manifest": {goodManifest}})
	if resp.StatusCode != http.StatusOK || !strings.Contains(page, "Create GitHub App for ann") ||
		!strings.Contains(page, "issues: write") {
		t.Errorf("status %d: %s", resp.StatusCode, page)
	}
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp,
		"form-action 'self' http://127.0.0.1:1") {
		t.Errorf("policy %q", csp)
	}
	code := manifestCode(t, w)
	status, answer := w.convert(t, code)
	if status != http.StatusCreated || answer["slug"] != "our-bot" || answer["name"] != "Our Bot" || answer["pem"] == "" ||
		answer["webhook_secret"] == "" || answer["client_secret"] == "" {
		t.Errorf("status %d: %v", status, answer)
	}
	if status, _ := w.convert(t, code); status != http.StatusNotFound {
		t.Errorf("the code worked twice: %d", status)
	}

	for name, tt := range map[string]struct {
		path, manifest, owner string
		status                int
		want                  string
	}{
		"the name is taken": {
			"/settings/apps/create", goodManifest, "ann", http.StatusUnprocessableEntity, "already_exists",
		},
		"an event without grant": {
			"/settings/apps/create",
			strings.Replace(strings.Replace(goodManifest, `["issues"]`, `["check_run"]`, 1), "Our Bot", "Other", 1), "ann",
			http.StatusUnprocessableEntity, "Default events unsupported",
		},
		"no hook": {
			"/settings/apps/new", strings.Replace(goodManifest, "https://example.com/hook", "", 1), "",
			http.StatusUnprocessableEntity, "hook url cannot be blank",
		},
		"no way back": {
			"/settings/apps/new", strings.Replace(goodManifest, "http://127", "gopher://127", 1), "",
			http.StatusUnprocessableEntity, "redirect_url",
		},
		"no JSON":                  {"/settings/apps/new", "<script>", "", http.StatusUnprocessableEntity, "not JSON"},
		"no such organization":     {"/organizations/nobody/settings/apps/new", goodManifest, "", http.StatusNotFound, ""},
		"a person is none":         {"/organizations/ann/settings/apps/new", goodManifest, "", http.StatusNotFound, ""},
		"another page of settings": {"/settings/apps/other", goodManifest, "", http.StatusNotFound, ""},
	} {
		resp, page := postForm(t, w.URL()+tt.path, url.Values{
			"manifest": {tt.manifest}, "owner": {tt.owner}, "name": {nameIn(tt.manifest)},
		})
		if resp.StatusCode != tt.status || !strings.Contains(page, tt.want) || strings.Contains(page, "<script>") {
			t.Errorf("%s: status %d: %s", name, resp.StatusCode, page)
		}
	}
}

func nameIn(manifest string) string {
	if strings.Contains(manifest, "Other") {
		return "Other"
	}
	return "Our Bot"
}

// convert trades a code for an App's credentials.
func (w *world) convert(t *testing.T, code string) (int, map[string]any) {
	t.Helper()
	resp, body := w.do(t, http.MethodPost, "/api/v3/app-manifests/"+code+"/conversions", "", nil)
	return resp.StatusCode, body
}
