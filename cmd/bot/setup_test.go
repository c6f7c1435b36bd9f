package main

import (
	"bufio"
	"bytes"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/appsetup"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/run"
)

// settingUp is `bot setup` under way.
type settingUp struct {
	t   *testing.T
	sim *ghsim.Sim
	dir string
	// gitHub is where the browser finds GitHub, and transport how: by default at the
	// simulation's own address.
	gitHub    string
	transport http.RoundTripper
	// page is the address that was printed.
	page string
	end  func() (code int, out, err string)
}

// setUp starts `bot setup` and waits for its address.
func setUp(t *testing.T, dir string, more ...string) *settingUp {
	t.Helper()
	sim := ghsimtest.Start(t, ghsim.Options{})
	if _, err := sim.CreateUser(person); err != nil {
		t.Fatal(err)
	}
	s := &settingUp{t: t, sim: sim, dir: dir}
	s.begin(more...)
	return s
}

func (s *settingUp) begin(more ...string) {
	s.t.Helper()
	args := append([]string{"setup", "--url", s.sim.URL(), "--webhook", "https://ralph.example.com", "--dir", s.dir},
		more...)
	r, w := io.Pipe()
	var out, errOut bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- realMain(args, stdio{in: strings.NewReader(""), out: w, err: &errOut})
		_ = w.Close() // pipes do not fail
	}()
	page, read := hear(r, &out)
	s.end = func() (int, string, string) {
		c := <-code
		<-read
		return c, out.String(), errOut.String()
	}
	s.page = <-page
}

// hear keeps what bot setup prints, and finds its page's address in it. The second
// channel is closed when all has been read.
func hear(r io.Reader, out *bytes.Buffer) (page <-chan string, all <-chan struct{}) {
	found, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		defer close(found)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			out.WriteString(lines.Text() + "\n")
			if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, "http://127.0.0.1:") && len(found) == 0 {
				found <- line
			}
		}
	}()
	return found, read
}

// get is what a browser does with a link; the answer's body comes with it.
func (s *settingUp) get(address string) (int, http.Header, string) {
	s.t.Helper()
	return s.send(http.MethodGet, address, nil)
}

func (s *settingUp) send(method, address string, form url.Values) (int, http.Header, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := &http.Client{
		Transport: s.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]*)"`)
	formField  = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
)

// submit posts the form of a page.
func (s *settingUp) submit(base, page string, more url.Values) (int, http.Header, string) {
	s.t.Helper()
	action := formAction.FindStringSubmatch(page)
	if action == nil {
		s.t.Fatalf("no form in\n%s", page)
	}
	form := url.Values{}
	for _, m := range formField.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	maps.Copy(form, more)
	from, err := url.Parse(base)
	if err != nil {
		s.t.Fatal(err)
	}
	to, err := from.Parse(html.UnescapeString(action[1]))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.send(http.MethodPost, to.String(), form)
}

// create goes through GitHub's page, to where it sends the browser.
func (s *settingUp) create() string {
	s.t.Helper()
	_, _, page := s.get(s.page)
	status, _, page := s.submit(s.page, page, nil)
	if status != http.StatusOK {
		s.t.Fatalf("GitHub's page: %d\n%s", status, page)
	}
	web := s.gitHub
	if web == "" {
		web = s.sim.URL()
	}
	status, header, page := s.submit(web, page, url.Values{"owner": {person}, "name": {"Ada's Ralph"}})
	if status != http.StatusFound {
		s.t.Fatalf("GitHub's answer: %d\n%s", status, page)
	}
	return header.Get("Location")
}

func TestSetupMakesAnApp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "config")
	s := setUp(t, dir, "--listen", ":8080", "--image", "tools:1", "--agent-path", "/agents/claude")
	status, header, page := s.get(s.page)
	if status != http.StatusOK || !strings.Contains(page, "pull requests") ||
		!strings.Contains(page, "https://ralph.example.com/api/github/hook") {
		t.Errorf("status %d:\n%s", status, page)
	}
	if csp := header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; ") ||
		!strings.Contains(csp, "form-action "+s.sim.URL()+";") || strings.Contains(csp, "unsafe") ||
		strings.Contains(page, "<script") {
		t.Errorf("policy %q of\n%s", csp, page)
	}
	status, _, page = s.get(s.create())
	if status != http.StatusOK || !strings.Contains(page, "/apps/ada-s-ralph/installations/new") {
		t.Errorf("status %d:\n%s", status, page)
	}
	code, out, errOut := s.end()
	if code != 0 || !strings.Contains(out, " doctor --config ") || !strings.Contains(out, " serve --config ") ||
		!strings.Contains(out, s.sim.URL()+"/apps/ada-s-ralph/installations/new") {
		t.Fatalf("exit code %d:\n%s%s", code, out, errOut)
	}

	// The credentials are there, nobody else may read them, and nothing showed them.
	env := func(name string) (string, bool) { return "a key", name == config.EnvAPIKey }
	cfg, err := config.LoadServer(filepath.Join(dir, configFile), env, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != ":8080" || cfg.Sandbox.Image != "tools:1" || cfg.Agent.Path != "/agents/claude" {
		t.Errorf("listens on %q, image %q, agent %q", cfg.Listen, cfg.Sandbox.Image, cfg.Agent.Path)
	}
	client, err := os.ReadFile(filepath.Join(dir, appsetup.ClientFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{
		cfg.GitHub.PrivateKey.Reveal(), cfg.GitHub.WebhookSecrets[0].Reveal(), strings.TrimSpace(string(client)),
	} {
		if len(secret) < 20 || strings.Contains(out+errOut+page, secret) {
			t.Errorf("a secret of %d bytes is missing, or was shown", len(secret))
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4 {
		t.Errorf("files %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", dir, info.Mode(), err)
	}
	// The App is what the doctor wants it to be.
	st := newStage(t, setting{})
	st.config.GitHub, st.config.GitHub.PrivateKey = cfg.GitHub, cfg.GitHub.PrivateKey
	if _, out := st.bot("doctor", "--config", st.writeConfig()); !strings.Contains(out, "✓ GitHub App") {
		t.Errorf("doctor:\n%s", out)
	}
}

// TestSetupBelievesOneAnswer with its own state, and no other.
func TestSetupBelievesOneAnswer(t *testing.T) {
	t.Parallel()
	s := setUp(t, t.TempDir())
	root, _, _ := strings.Cut(strings.TrimPrefix(s.page, "http://"), "/")
	root = "http://" + root
	good := s.create()
	foreign := setUp(t, t.TempDir()) // somebody else's set-up, and its answer
	theirs, err := url.Parse(foreign.create())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := url.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	withCode := func(code string) string {
		return root + "/created?" + url.Values{"code": {code}, "state": {ours.Query().Get("state")}}.Encode()
	}
	for name, c := range map[string]struct {
		address string
		status  int
	}{
		"the page without its word": {root + "/", http.StatusNotFound},
		"another word":              {root + "/" + strings.Repeat("A", 26), http.StatusNotFound},
		"no state":                  {root + "/created?code=" + ours.Query().Get("code"), http.StatusForbidden},
		"somebody else's state":     {root + "/created?" + theirs.RawQuery, http.StatusForbidden},
		"denied":                    {withCode(""), http.StatusBadRequest},
		"by another name":           {strings.Replace(s.page, "127.0.0.1", "localhost", 1), http.StatusMisdirectedRequest},
	} {
		if status, _, page := s.get(c.address); status != c.status || strings.Contains(page, ours.Query().Get("state")) {
			t.Errorf("%s: status %d, want %d:\n%s", name, status, c.status, page)
		}
	}
	if status, _, _ := s.send(http.MethodPost, good, url.Values{}); status != http.StatusMethodNotAllowed {
		t.Errorf("posted: status %d", status)
	}

	// GitHub is away for a moment: the same answer is taken again, another is not.
	if err := s.sim.Inject(ghsim.Fault{Match: "/conversions$", Status: http.StatusBadGateway, Body: "{}"}); err != nil {
		t.Fatal(err)
	}
	if status, _, page := s.get(good); status != http.StatusBadGateway || !strings.Contains(page, "Reload this page") {
		t.Errorf("status %d:\n%s", status, page)
	}
	if status, _, _ := s.get(withCode(theirs.Query().Get("code"))); status != http.StatusConflict {
		t.Errorf("another code: status %d", status)
	}
	if status, _, page := s.get(good); status != http.StatusOK {
		t.Errorf("status %d:\n%s", status, page)
	}
	if code, out, errOut := s.end(); code != 0 {
		t.Errorf("exit code %d:\n%s%s", code, out, errOut)
	}
}

func TestSetupSaysWhatItCannotDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := setUp(t, dir)
	s.get(s.create())
	if code, out, errOut := s.end(); code != 0 {
		t.Fatalf("exit code %d:\n%s%s", code, out, errOut)
	}
	key, err := os.ReadFile(filepath.Join(dir, appsetup.KeyFile))
	if err != nil {
		t.Fatal(err)
	}

	// Nothing is written over, unless that was asked for; the configuration never is.
	setup := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := realMain(append([]string{"setup", "--url", s.sim.URL()}, args...), stdio{out: &out, err: &out})
		return code, out.String()
	}
	if code, out := setup("--webhook", "https://ralph.example.com", "--dir", dir); code != run.ExitUsage ||
		!strings.Contains(out, "--force") {
		t.Errorf("exit code %d: %s", code, out)
	}
	before, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil {
		t.Fatal(err)
	}
	again := &settingUp{t: t, sim: s.sim, dir: dir}
	again.begin("--force")
	_, _, page := again.get(again.page)
	_, _, page = again.submit(again.page, page, nil)
	_, header, _ := again.submit(s.sim.URL(), page, url.Values{"owner": {person}, "name": {"second"}})
	again.get(header.Get("Location"))
	if code, out, errOut := again.end(); code != 0 || !strings.Contains(out, "was not changed") ||
		!strings.Contains(out, "webhook_secret_file") {
		t.Errorf("exit code %d:\n%s%s", code, out, errOut)
	}
	after, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the configuration was changed: %v\n%s", err, after)
	}
	if now, err := os.ReadFile(filepath.Join(dir, appsetup.KeyFile)); err != nil || bytes.Equal(now, key) {
		t.Errorf("the key was not replaced: %v", err)
	}

	for name, args := range map[string][]string{
		"--addr":    {"--webhook", "https://a.example", "--dir", t.TempDir(), "--addr", "0.0.0.0:0"},
		"--webhook": {"--webhook", "http://a.example", "--dir", t.TempDir()},
		"--url":     {"--webhook", "https://a.example", "--dir", t.TempDir(), "--url", "http://github.example"},
	} {
		if code, out := setup(args...); code != run.ExitUsage || !strings.Contains(out, name) {
			t.Errorf("%s: exit code %d: %s", name, code, out)
		}
	}
	if code, out := setup("--webhook", "https://a.example", "--dir", t.TempDir(), "--timeout",
		"1ms"); code != run.ExitUsage || !strings.Contains(out, "no App was created") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestGitHubByItsAddress(t *testing.T) {
	t.Parallel()
	for web, want := range map[string]gitHubURLs{
		"https://github.com/": {"https://github.com", "https://api.github.com/", "https://api.github.com/graphql"},
		"https://octo.ghe.com": {
			"https://octo.ghe.com", "https://api.octo.ghe.com/", "https://api.octo.ghe.com/graphql",
		},
		"https://git.example.com": {
			"https://git.example.com", "https://git.example.com/api/v3/", "https://git.example.com/api/graphql",
		},
		"http://127.0.0.1:8081": {
			"http://127.0.0.1:8081", "http://127.0.0.1:8081/api/v3/", "http://127.0.0.1:8081/api/graphql",
		},
		"http://git.example.com":    {},
		"https://git.example.com/x": {},
		"https://u:p@github.com":    {},
		"github.com":                {},
	} {
		if got, err := gitHubAt(web); got != want || (err == nil) != (want != gitHubURLs{}) {
			t.Errorf("%s: %+v, %v", web, got, err)
		}
	}
}

// TestSetupByHandIsComplete: what docs/server.md lists is what bot setup asks for.
func TestSetupByHandIsComplete(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	row := func(name string) []string {
		m := regexp.MustCompile(`(?m)^\| ` + name + ` \| (.*) \|$`).FindSubmatch(doc)
		if m == nil {
			t.Fatalf("docs/server.md has no row %q", name)
		}
		return strings.Split(strings.ReplaceAll(strings.ToLower(string(m[1])), " ", "_"), "_·_")
	}
	var permissions []string
	for name, access := range ghapp.Permissions() {
		permissions = append(permissions, name+":_"+strings.Replace(access, "write", "read_and_write", 1))
	}
	sorted := cmpopts.SortSlices(strings.Compare)
	if diff := cmp.Diff(permissions, row("Repository permissions"), sorted); diff != "" {
		t.Errorf("permissions asked for (-) and documented (+)\n%s", diff)
	}
	if diff := cmp.Diff(handlers.Subscriptions(), row("Subscribe to events"), sorted); diff != "" {
		t.Errorf("events asked for (-) and documented (+)\n%s", diff)
	}
}
