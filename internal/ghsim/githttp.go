package ghsim

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/strs"
)

// maxPush bounds one push.
const maxPush = 512 << 20

// gitPath is what git asks for over smart HTTP. The suffix .git may be left
// out, as on GitHub.
var gitPath = strs.Lazy(`^/([^/]+)/([^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)$`)

// serveGit speaks git's smart HTTP protocol over the real git programs.
func (s *Sim) serveGit(w http.ResponseWriter, r *http.Request) {
	m := gitPath().FindStringSubmatch(r.URL.EscapedPath())
	service := m[3]
	if service == "info/refs" {
		service = r.URL.Query().Get("service")
	}
	entry := Call{
		Kind: "git", Method: r.Method, Route: service, Path: r.URL.EscapedPath(), Purpose: r.Header.Get("X-Ralph-Purpose"),
		Caller: "anonymous",
	}
	f := s.takeFault(r.Method, r.URL.EscapedPath())
	if f != nil && f.Hold != nil {
		select {
		case <-f.Hold:
		case <-r.Context().Done():
			return
		case <-s.life.Done():
			return
		}
	}
	// With After the work is done and its answer thrown away.
	out := w
	var lost *lostWriter
	if f != nil && (f.Status != 0 || f.Drop) {
		lost = &lostWriter{header: http.Header{}}
		out = lost
	}
	if lost == nil || f.After {
		entry.Status = s.git2http(out, r, m, service, &entry)
	}
	if lost != nil {
		entry.Status = f.Status
	}
	s.mu.Lock()
	s.record(entry)
	s.mu.Unlock()
	if lost == nil {
		return
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

// lostWriter is an answer that never arrives.
type lostWriter struct{ header http.Header }

func (l *lostWriter) Header() http.Header         { return l.header }
func (l *lostWriter) Write(p []byte) (int, error) { return len(p), nil }
func (l *lostWriter) WriteHeader(int)             {}

// git2http answers one git request and returns the status it answered with.
func (s *Sim) git2http(w http.ResponseWriter, r *http.Request, m []string, service string, entry *Call) int {
	deny := func(status int, text string) int {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		}
		http.Error(w, text, status)
		return status
	}
	if service != "git-upload-pack" && service != "git-receive-pack" {
		return deny(http.StatusForbidden, "Please upgrade your git client.") // the dumb protocol
	}
	owner, err1 := url.PathUnescape(m[1])
	name, err2 := url.PathUnescape(m[2])
	if err1 != nil || err2 != nil {
		return deny(http.StatusNotFound, "Repository not found.")
	}
	s.mu.Lock()
	repo, who, err := s.gitAccess(r, owner, name, service)
	s.mu.Unlock()
	if e, ok := errors.AsType[*Error](err); ok {
		return deny(e.Status, e.Message)
	}
	entry.Caller = who.name()

	body := io.Reader(http.MaxBytesReader(w, r.Body, maxPush))
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return deny(http.StatusBadRequest, "bad gzip")
		}
		body = io.LimitReader(z, maxPush)
	}
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	args := []string{strings.TrimPrefix(service, "git-"), "--stateless-rpc"}
	var env []string
	if v := r.Header.Get("Git-Protocol"); gitProtocol().MatchString(v) {
		env = append(env, "GIT_PROTOCOL="+v)
	}
	cmd := proc.Cmd{Path: s.git, Env: gitEnv(env...), Stdin: body}
	switch {
	case m[3] == "info/refs" && r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
		line := "# service=" + service + "\n"
		_, _ = fmt.Fprintf(w, "%04x%s0000", len(line)+4, line) //nolint:gosec // for git, and of two fixed services
		cmd.Args, cmd.Stdin = append(args, "--advertise-refs", repo.git.dir), nil
		if service == "git-upload-pack" && slices.Contains(env, "GIT_PROTOCOL=version=2") {
			s.advertise(w, r, cmd)
			return http.StatusOK
		}
		cmd.Stdout = w
		_, _ = proc.Run(r.Context(), cmd) // the client sees an answer cut short
		return http.StatusOK
	case m[3] != "info/refs" && r.Method == http.MethodPost:
		w.Header().Set("Content-Type", "application/x-"+service+"-result")
		cmd.Args = append(args, repo.git.dir)
		if service == "git-receive-pack" {
			return s.receivePack(w, repo, who, cmd)
		}
		cmd.Stdout = w
		_, _ = proc.Run(r.Context(), cmd)
		return http.StatusOK
	default:
		return deny(http.StatusMethodNotAllowed, "Method not allowed")
	}
}

// advertise tells what the server can do, which is all that version 2 begins with, and the same
// for all repositories.
func (s *Sim) advertise(w http.ResponseWriter, r *http.Request, cmd proc.Cmd) {
	s.mu.Lock()
	known := s.can
	s.mu.Unlock()
	if known == nil {
		res, err := proc.Run(r.Context(), cmd)
		if err != nil {
			return // the client sees an answer cut short
		}
		known = res.Stdout
		s.mu.Lock()
		s.can = known
		s.mu.Unlock()
	}
	_, _ = w.Write(known)
}

var gitProtocol = strs.Lazy(`^[\w=:.]{1,64}$`)

// gitAccess finds the repository and whether the caller may use it so.
func (s *Sim) gitAccess(r *http.Request, owner, name, service string) (*repo, principal, error) {
	who, err := s.identify(r)
	if err != nil {
		return nil, principal{}, err
	}
	repo, err := s.repoByName(owner, name)
	missing := &Error{Status: http.StatusNotFound, Message: "Repository not found."}
	login := &Error{Status: http.StatusUnauthorized, Message: "Authentication required"}
	write := service == "git-receive-pack"
	switch {
	case who.anonymous() && (err != nil || repo.private || write):
		return nil, who, login // GitHub does not tell strangers what exists
	case err != nil:
		return nil, who, missing
	case who.app != nil:
		return nil, who, login
	case who.tok != nil:
		want := "read"
		if write {
			want = "write"
		}
		if !slices.Contains(who.tok.repos, repo) {
			return nil, who, missing
		}
		if !who.tok.allows("contents", want) {
			return nil, who, &Error{Status: http.StatusForbidden, Message: "Write access to repository not granted."}
		}
	case who.user != nil:
		if write && repo.role(who.user).rank() < RoleWrite.rank() {
			return nil, who, &Error{
				Status:  http.StatusForbidden,
				Message: "Permission to " + repo.fullName() + ".git denied to " + who.user.login + ".",
			}
		}
		if repo.role(who.user) == RoleNone {
			return nil, who, missing
		}
	}
	return repo, who, nil
}

// receivePack takes a push and does what follows from the refs it moved. The
// body is read first, so that a slow client holds nobody up.
func (s *Sim) receivePack(w http.ResponseWriter, repo *repo, who principal, cmd proc.Cmd) int {
	body, err := io.ReadAll(cmd.Stdin)
	if err != nil {
		http.Error(w, "push cut short", http.StatusBadRequest)
		return http.StatusBadRequest
	}
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(body), &said
	s.mu.Lock()
	defer s.mu.Unlock()
	// Once git has the push, what follows must not be cut off by the client.
	before, err1 := repo.git.refs(s.life, "refs/")
	_, _ = proc.Run(s.life, cmd) // git tells the client itself what it refused
	after, err2 := repo.git.refs(s.life, "refs/")
	answer := said.Bytes()
	if err = errors.Join(err1, err2); err == nil {
		moves := refMoves(before, after)
		var refusal string
		if refusal, err = s.pushRefusal(repo, who, moves); err == nil && refusal != "" {
			answer, err = s.takeBack(repo, moves, refusal)
		} else if err == nil {
			err = s.refsMoved(repo, who.author(), moves)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	_, _ = w.Write(answer) //nolint:gosec // for git: no browser reads this type
	return http.StatusOK
}

// refMove is a ref that a push moved; zeroOID stands for absent.
type refMove struct{ name, was, now string }

// refMoves finds the refs that differ between two listings.
func refMoves(before, after []gitRef) []refMove {
	old, all := map[string]string{}, map[string]string{}
	for _, ref := range before {
		old[ref.Name], all[ref.Name] = ref.OID, zeroOID
	}
	for _, ref := range after {
		all[ref.Name] = ref.OID
	}
	var moves []refMove
	for _, name := range sortedKeys(all) {
		m := refMove{name: name, was: cmp.Or(old[name], zeroOID), now: all[name]}
		if m.was != m.now {
			moves = append(moves, m)
		}
	}
	return moves
}

// refsMoved does what follows from a push.
func (s *Sim) refsMoved(r *repo, by author, moves []refMove) error {
	for _, m := range moves {
		if err := s.refMoved(s.life, r, by, m.name, m.now, m.was); err != nil {
			return err
		}
	}
	return nil
}

// pushRefusal says why GitHub would not take a push that git took: an App may
// not touch workflows without the permission.
func (s *Sim) pushRefusal(r *repo, who principal, moves []refMove) (string, error) {
	if who.tok == nil || who.tok.allows("workflows", "write") {
		return "", nil
	}
	for _, m := range moves {
		if m.now == zeroOID {
			continue
		}
		path, err := s.workflowsTouched(s.life, r, m.now, m.was)
		if err != nil {
			return "", err
		}
		if path != "" {
			return workflowRefusal(path), nil
		}
	}
	return "", nil
}

// takeBack undoes a push and makes the answer that refuses all of it, as git
// would have made it.
func (s *Sim) takeBack(r *repo, moves []refMove, why string) ([]byte, error) {
	var report bytes.Buffer
	line := func(text string) { _, _ = fmt.Fprintf(&report, "%04x%s", len(text)+4, text) }
	line("unpack ok\n")
	for _, m := range moves {
		if err := r.git.updateRef(s.life, m.name, m.was, m.now); err != nil {
			return nil, err
		}
		line("ng " + m.name + " " + why + "\n")
	}
	report.WriteString("0000")
	// Every git since 2007 asks for side-band-64k: band 1 carries the report.
	return fmt.Appendf(nil, "%04x\x01%s0000", report.Len()+5, report.String()), nil
}
