package ghsim

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/cgi" //nolint:gosec // G504 is about Go before 1.6.3
	"net/url"

	"github.com/org/ralph-action/internal/strs"
)

// gitPath is what git asks for to fetch over smart HTTP. The suffix .git may be left out, as on GitHub.
var gitPath = strs.Lazy(`^/([^/]+)/([^/]+?)(?:\.git)?(/info/refs|/git-upload-pack)$`)

// gitProtocol is what may stand in a Git-Protocol header.
var gitProtocol = strs.Lazy(`^[\w=:.]{1,64}$`)

const uploadPack = "git-upload-pack"

// serveGit lets git fetch: who may is decided here, the rest is git's own server.
func (s *Sim) serveGit(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	entry := Call{Kind: "git", Method: r.Method, Route: uploadPack, Path: path, Status: http.StatusOK}
	f := s.takeFault(r.Method, path)
	if !s.wait(r, f) {
		return
	}
	m := gitPath().FindStringSubmatch(path)
	s.mu.Lock()
	repo, who, err := s.gitAccess(r, m)
	entry.Caller = who.name()
	refusal, refused := errors.AsType[*Error](err)
	if refused {
		entry.Status = refusal.Status
	}
	if f != nil && (f.Status != 0 || f.Drop) {
		entry.Status = f.Status
	}
	s.record(entry)
	s.mu.Unlock()
	switch {
	case f != nil && f.Drop:
		panic(http.ErrAbortHandler) // net/http's way to close the connection
	case f != nil && f.Status != 0:
		for k, v := range f.Header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body) // the caller went away: nothing to tell it
	case refused:
		if refusal.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		}
		http.Error(w, refusal.Message, refusal.Status)
	default:
		env := gitEnv("GIT_PROJECT_ROOT="+repo.git.dir, "GIT_HTTP_EXPORT_ALL=1")
		if v := r.Header.Get("Git-Protocol"); gitProtocol().MatchString(v) {
			env = append(env, "GIT_PROTOCOL="+v)
		}
		ask := *r
		ask.URL = &url.URL{Path: m[3], RawQuery: r.URL.RawQuery}
		ask.Header = maps.Clone(r.Header)
		ask.Header.Del("Authorization") // checked above
		server := cgi.Handler{Path: s.git, Dir: repo.git.dir, Root: "/", Env: env, Args: []string{
			"-c", "uploadpack.allowFilter=true", "-c", "uploadpack.allowAnySHA1InWant=true", "http-backend",
		}}
		server.ServeHTTP(w, &ask)
	}
}

// gitAccess finds the repository of a call and whether the caller may fetch from it.
func (s *Sim) gitAccess(r *http.Request, m []string) (*repo, principal, error) {
	who, err := s.identify(r)
	if err != nil {
		return nil, principal{}, err
	}
	if m[3] == "/info/refs" && (r.URL.Query().Get("service") != uploadPack || r.Method != http.MethodGet) ||
		m[3] != "/info/refs" && r.Method != http.MethodPost {
		return nil, who, &Error{Status: http.StatusForbidden, Message: "Only fetching over the smart protocol is served."}
	}
	missing := &Error{Status: http.StatusNotFound, Message: "Repository not found."}
	owner, err1 := url.PathUnescape(m[1])
	name, err2 := url.PathUnescape(m[2])
	if errors.Join(err1, err2) != nil {
		return nil, who, missing
	}
	repo, err := s.repoByName(owner, name)
	switch {
	case who.app != nil, who.anonymous() && (err != nil || repo.private):
		// GitHub does not tell strangers what exists.
		return nil, who, &Error{Status: http.StatusUnauthorized, Message: "Authentication required"}
	case err != nil:
		return nil, who, missing
	case who.tok != nil && !who.tok.covers(repo), who.user != nil && repo.role(who.user) == RoleNone:
		return nil, who, missing
	case who.tok != nil && !who.tok.allows("contents", "read"):
		return nil, who, &Error{Status: http.StatusForbidden, Message: "Write access to repository not granted."}
	}
	return repo, who, nil
}
