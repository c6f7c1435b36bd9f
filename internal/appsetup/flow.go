package appsetup

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/ghapp"
)

//go:embed page.html
var pageSource string

// Config is what a Flow is made of.
type Config struct {
	// Web is the root of GitHub's pages, without a slash at the end, and Org the
	// organisation that is to own the App, "" for whoever is logged in.
	Web, Org string
	// Manifest describes the App, but for where GitHub sends the browser back to.
	Manifest ghapp.Manifest
	// Register trades a code for credentials; it is ghapp.Register.
	Register func(ctx context.Context, code string) (ghapp.Registration, error)
	// Save keeps them.
	Save func(ghapp.Registration) error
}

// Flow takes one person through the making of one App.
type Flow struct {
	cfg Config
	// base is where the flow is served; word is part of the address of its page,
	// and state comes back from GitHub.
	base, host, word, state string
	page                    *template.Template

	mu sync.Mutex
	// code came with the state; no other is taken after it.
	code  string
	ended bool
	done  chan outcome
}

type outcome struct {
	app ghapp.Registration
	err error
}

// New prepares a flow that is served at base, such as "http://127.0.0.1:4711".
func New(cfg Config, base string) (*Flow, error) {
	page, err := template.New("").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("page of the set-up: %w", err)
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("address of the set-up: %w", err)
	}
	f := &Flow{
		cfg: cfg, base: base, host: u.Host, word: rand.Text(), state: rand.Text() + rand.Text(), page: page,
		done: make(chan outcome, 1),
	}
	f.cfg.Manifest.RedirectURL = base + "/created"
	return f, nil
}

// Page is the address that a person opens.
func (f *Flow) Page() string { return f.base + "/" + f.word }

// Wait waits until there is an App, or until there will be none any more.
func (f *Flow) Wait(ctx context.Context) (ghapp.Registration, error) {
	select {
	case out := <-f.done:
		return out.app, out.err
	case <-ctx.Done():
		return ghapp.Registration{}, context.Cause(ctx)
	}
}

// ServeHTTP implements http.Handler.
func (f *Flow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Host != f.host:
		// A name that somebody else made point to this machine.
		http.Error(w, "not served under this name", http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case same(r.URL.Path, "/"+f.word):
		f.show(w, http.StatusOK, view{Title: "Create a GitHub App", Form: f.form()})
	case r.URL.Path == "/created":
		f.created(w, r)
	default:
		http.NotFound(w, r)
	}
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// created takes the browser back from GitHub.
func (f *Flow) created(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if !same(q.Get("state"), f.state) {
		f.show(w, http.StatusForbidden, view{
			Title: "This is not the expected answer",
			Text: "It does not belong to the set-up that is running here. Nothing was stored. Open the address " +
				"shown in the terminal and start there.",
		})
		return
	}
	code := q.Get("code")
	if code == "" {
		f.show(w, http.StatusBadRequest, view{
			Title: "No App was created", Text: "GitHub sent no code back.", Again: f.Page(),
		})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.code != "" && !same(f.code, code) {
		f.show(w, http.StatusConflict, view{
			Title: "Already answered", Text: "This answer was already used. See the terminal for the result.",
		})
		return
	}
	f.code = code
	// A browser that goes away must not cost the credentials, which come once.
	app, err := f.cfg.Register(context.WithoutCancel(r.Context()), code)
	switch class, _ := ghapp.Classify(err); {
	case err == nil:
		f.keep(w, app)
	case class == ghapp.Transient || class == ghapp.RateLimited:
		f.show(w, http.StatusBadGateway, view{
			Title: "Could not reach GitHub",
			Text: "The App was created, but fetching its credentials failed. Reload this page to try again within " +
				"an hour. Error: " + err.Error(),
		})
	default:
		f.end(outcome{err: err})
		f.show(w, http.StatusBadGateway, view{
			Title: "GitHub gave no credentials",
			Text: "The code was already used or is more than an hour old. Delete the App on GitHub and run " +
				"ralph-bot setup again. Error: " + err.Error(),
		})
	}
}

// keep stores the credentials and tells the person what comes next.
func (f *Flow) keep(w http.ResponseWriter, app ghapp.Registration) {
	if err := f.cfg.Save(app); err != nil {
		f.end(outcome{app: app, err: err})
		f.show(w, http.StatusInternalServerError, view{
			Title: "The credentials could not be stored", Text: "See the terminal for the reason and what to do.",
		})
		return
	}
	f.end(outcome{app: app})
	f.show(w, http.StatusOK, view{
		Title: app.Slug + " is there",
		Text: "Its credentials are stored; the terminal shows where. One step is left: choose the repositories it " +
			"may work in.",
		Install: InstallURL(app),
	})
}

func (f *Flow) end(out outcome) {
	f.ended = true
	f.done <- out
}

// InstallURL is the page on which an App is installed.
func InstallURL(app ghapp.Registration) string {
	return strings.TrimSuffix(app.URL, "/") + "/installations/new"
}

// view is what a page shows.
type view struct {
	Title, Text, Nonce string
	Again, Install     string
	Form               *form
}

type form struct {
	Action, Host, Owner, Manifest, Name, Hook string
	Permissions                               []permission
	Events                                    []string
}

type permission struct{ Name, Access string }

func (f *Flow) form() *form {
	m := f.cfg.Manifest
	body, err := json.Marshal(m)
	if err != nil { // strings only: cannot happen, and must not pass in silence
		panic(fmt.Sprintf("appsetup: manifest: %v", err))
	}
	out := &form{
		Action: f.newAppURL(), Host: hostOf(f.cfg.Web), Owner: f.cfg.Org, Manifest: string(body), Name: m.Name,
		Hook: m.Hook.URL, Events: slices.Sorted(slices.Values(m.Events)),
	}
	for _, name := range slices.Sorted(maps.Keys(m.Permissions)) {
		access := "read"
		if m.Permissions[name] == "write" {
			access = "read and write"
		}
		out.Permissions = append(out.Permissions, permission{strings.ReplaceAll(name, "_", " "), access})
	}
	return out
}

func (f *Flow) newAppURL() string {
	path := "/settings/apps/new"
	if f.cfg.Org != "" {
		path = "/organizations/" + url.PathEscape(f.cfg.Org) + path
	}
	return f.cfg.Web + path + "?" + url.Values{"state": {f.state}}.Encode()
}

func hostOf(web string) string {
	if _, host, ok := strings.Cut(web, "://"); ok {
		return host
	}
	return web
}

// show writes a page. It runs no script, fetches nothing, and its form goes to
// GitHub only.
func (f *Flow) show(w http.ResponseWriter, status int, v view) {
	v.Nonce = rand.Text()
	var b bytes.Buffer
	if err := f.page.Execute(&b, v); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	target := "'none'"
	if v.Form != nil {
		target = f.cfg.Web
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+v.Nonce+"'; form-action "+target+
		"; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser went away: nothing to tell it
}
