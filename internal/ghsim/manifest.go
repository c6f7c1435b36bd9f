package ghsim

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/strs"
)

// manifestLife is how long the code of an App that was made of a manifest works.
const manifestLife = time.Hour

// manifestCode is a code that has not been traded for credentials yet.
type manifestCode struct {
	app     *app
	expires time.Time
}

// manifest describes an App, as GitHub's page for new Apps takes it.
type manifest struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Hook *struct {
		URL    string `json:"url"`
		Active *bool  `json:"active"`
	} `json:"hook_attributes"`
	RedirectURL string            `json:"redirect_url"`
	Permissions map[string]string `json:"default_permissions"`
	Events      []string          `json:"default_events"`
}

// newApp asks whether the App is to be made, and as whose.
type newApp struct {
	Problem, Manifest, State, Name, Hook string
	Permissions                          []string
	Events, Owners                       []string
}

func isNewApp(path string) bool {
	return strings.HasPrefix(path, "/settings/apps/") || strings.HasPrefix(path, "/organizations/")
}

// serveNewApp is GitHub's page for new Apps: what another page posts to
// /settings/apps/new is shown, and made by the button below it. There are no
// passwords here: every person has a button.
func (s *Sim) serveNewApp(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "post a manifest", http.StatusMethodNotAllowed)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "no form", http.StatusBadRequest)
		return
	}
	p := newApp{Manifest: r.PostFormValue("manifest"), State: r.FormValue("state")}
	m, problem := readManifest(p.Manifest)
	org, forOrg := "", false
	if rest, ok := strings.CutPrefix(r.URL.Path, "/organizations/"); ok {
		org, forOrg = strings.CutSuffix(rest, "/settings/apps/new")
	}
	switch {
	case problem != "":
		p.Problem = problem
	case r.URL.Path == "/settings/apps/create":
		m.Name = r.PostFormValue("name")
		code, err := s.createFromManifest(m, r.PostFormValue("owner"))
		if err == nil {
			to, _ := url.Parse(m.RedirectURL) // readManifest did
			q := to.Query()
			q.Set("code", code)
			q.Set("state", p.State)
			to.RawQuery = q.Encode()
			http.Redirect(w, r, to.String(), http.StatusFound) // where the manifest says
			return
		}
		p.Problem = err.Error()
	case r.URL.Path != "/settings/apps/new" && !forOrg:
		http.NotFound(w, r)
		return
	}
	owners, found := s.ownersOfApps(org)
	if !found {
		http.NotFound(w, r)
		return
	}
	p.Owners, p.Name, p.Events = owners, m.Name, m.Events
	if m.Hook != nil {
		p.Hook = m.Hook.URL
	}
	for _, k := range sortedKeys(m.Permissions) {
		p.Permissions = append(p.Permissions, k+": "+m.Permissions[k])
	}
	// Browsers hold the redirect that follows a form to the same rule.
	back := ""
	if to, err := url.Parse(m.RedirectURL); err == nil && to.Host != "" {
		back = " " + to.Scheme + "://" + to.Host
	}
	status := http.StatusOK
	if p.Problem != "" {
		status = http.StatusUnprocessableEntity
	}
	s.writePage(w, status, pageData{Title: "Create GitHub App", App: &p}, "form-action 'self'"+back)
}

// ownersOfApps are the accounts that may own an App: the organization, or all people.
func (s *Sim) ownersOfApps(org string) (owners []string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if org != "" {
		u, err := s.userByLogin(org)
		if err != nil || u.kind != "Organization" {
			return nil, false
		}
		return []string{u.login}, true
	}
	for _, k := range sortedKeys(s.users) {
		if u := s.users[k]; u.kind == "User" && u != s.webFlow {
			owners = append(owners, u.login)
		}
	}
	return owners, true
}

// readManifest says what is wrong with a manifest, as GitHub does on its page.
func readManifest(raw string) (m manifest, problem string) {
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return m, "Invalid GitHub App configuration: the manifest is not JSON"
	}
	home, err := url.Parse(m.URL)
	if err != nil || home.Host == "" {
		return m, "Invalid GitHub App configuration: url is missing"
	}
	if m.Hook == nil || m.Hook.URL == "" {
		return m, "Invalid GitHub App configuration: hook url cannot be blank"
	}
	to, err := url.Parse(m.RedirectURL)
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
		return m, "Invalid GitHub App configuration: redirect_url must be a valid URL"
	}
	return m, ""
}

var notInSlug = strs.Lazy(`[^a-z0-9]+`)

// createFromManifest makes the App and the code that its credentials can be
// fetched with, once.
func (s *Sim) createFromManifest(m manifest, owner string) (code string, err error) {
	slug := strings.Trim(notInSlug().ReplaceAllString(strings.ToLower(m.Name), "-"), "-")
	if slug == "" {
		return "", errors.New("Name can't be blank") //nolint:staticcheck // ST1005: as GitHub's page says it
	}
	if owners, _ := s.ownersOfApps(""); !slices.Contains(owners, owner) {
		if _, isOrganization := s.ownersOfApps(owner); !isOrganization {
			return "", errors.New("there is nobody of that name")
		}
	}
	o := AppOptions{Slug: slug, Owner: owner, HookURL: m.Hook.URL, Permissions: m.Permissions, Events: m.Events}
	if m.Hook.Active != nil && !*m.Hook.Active {
		o.HookURL = ""
	}
	made, err := s.CreateApp(o)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.appByID(made.ID)
	if err != nil {
		return "", err
	}
	a.name, a.clientSecret = m.Name, newGUID()
	code = newGUID()
	s.manifests[code] = manifestCode{app: a, expires: s.now().Add(manifestLife)}
	return code, nil
}

// postConversion gives an App's credentials for its code, once.
func (s *Sim) postConversion(c *call) (int, any, error) {
	code := c.str("code")
	found, ok := s.manifests[code]
	if !ok || !s.now().Before(found.expires) {
		return 0, nil, notFound()
	}
	delete(s.manifests, code)
	a := found.app
	return http.StatusCreated, &github.AppConfig{
		ID: &a.id, Slug: &a.slug, Name: &a.name, Owner: s.userJSON(a.owner), HTMLURL: new(s.base + "/apps/" + a.slug),
		ClientID: &a.clientID, ClientSecret: &a.clientSecret, WebhookSecret: &a.hook.secret, PEM: new(string(a.pem)),
	}, nil
}
