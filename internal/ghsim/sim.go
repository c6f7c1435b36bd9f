package ghsim

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/org/ralph-action/internal/proc"
)

// Options say how a Sim is made.
type Options struct {
	// Dir is where the bare repositories live; it must exist.
	Dir string
	// Clock tells the time; nil means time.Now. Tokens, timestamps and commits
	// follow it.
	Clock func() time.Time
	// Wrap, where set, goes around the handler that Start serves: the demo and the tests
	// hear of calls there.
	Wrap func(http.Handler) http.Handler
}

// Sim is one GitHub. Its methods may be called from many goroutines.
type Sim struct {
	dir    string
	clock  func() time.Time
	git    string
	wrap   func(http.Handler) http.Handler
	routes []*route
	schema *ast.Schema
	pages  *template.Template
	admin  http.Handler

	// life ends when the Sim is closed; webhook deliveries run under it.
	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	// mu guards everything below: one request changes the model at a time.
	mu     sync.Mutex
	base   string
	server *http.Server
	served chan error
	lastID int64
	users  map[string]*user // by lower-case login
	repos  map[string]*repo // by lower-case full name
	apps   []*app
	tokens map[string]*token
	// manifests are Apps whose credentials nobody has fetched yet, by code.
	manifests map[string]manifestCode
	calls     []Call
	faults    []*fault
	hooks     []*hook
	pending   int             // deliveries not finished yet
	idle      []chan struct{} // closed when pending reaches zero
	webFlow   *user           // GitHub itself, committer of signed commits
}

// New makes an empty GitHub.
func New(o Options) (*Sim, error) {
	if o.Dir == "" {
		return nil, errors.New("ghsim: no directory for the repositories")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("ghsim: %w", err)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	git, err := proc.Look("git")
	if err != nil {
		return nil, fmt.Errorf("ghsim: %w", err)
	}
	s := &Sim{
		dir: dir, clock: o.Clock, git: git, wrap: o.Wrap,
		lastID: 1000,
		users:  map[string]*user{}, repos: map[string]*repo{}, tokens: map[string]*token{},
		manifests: map[string]manifestCode{},
	}
	s.webFlow = &user{id: 19864447, login: "web-flow", kind: "User"}
	s.users["web-flow"] = s.webFlow
	if s.schema, err = gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: schemaSource}); err != nil {
		return nil, fmt.Errorf("ghsim: %w", err)
	}
	if s.pages, err = template.New("pages").Parse(pagesSource); err != nil {
		return nil, fmt.Errorf("ghsim: %w", err)
	}
	s.routes = s.restRoutes()
	s.admin = s.newAdmin()
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Start serves on addr ("127.0.0.1:0" takes a free port) until Close, and
// returns the address as a URL without a trailing slash.
func (s *Sim) Start(addr string) (string, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(s.life, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("ghsim: listen: %w", err)
	}
	var h http.Handler = s.handler()
	if s.wrap != nil {
		h = s.wrap(h)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)

	s.mu.Lock()
	if s.server != nil {
		s.mu.Unlock()
		return "", errors.Join(errors.New("ghsim: already started"), ln.Close())
	}
	s.base = "http://" + ln.Addr().String()
	s.server, s.served = server, served
	url := s.base
	s.mu.Unlock()

	go func() { served <- server.Serve(ln) }()
	return url, nil
}

// URL is the address without a trailing slash: "http://127.0.0.1:41234".
func (s *Sim) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base
}

// Close stops serving and delivering. Deliveries still queued are dropped;
// see WaitIdle.
func (s *Sim) Close(ctx context.Context) error {
	s.end()
	s.mu.Lock()
	server, served := s.server, s.served
	s.server = nil
	s.mu.Unlock()
	var err error
	if server != nil {
		if err = server.Shutdown(ctx); err != nil {
			err = errors.Join(err, server.Close())
		}
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	s.work.Wait()
	if err != nil {
		return fmt.Errorf("ghsim: close: %w", err)
	}
	return nil
}

// now is the time of the simulated GitHub. Its answers show whole seconds; the
// rest keeps what happens within one second in order.
func (s *Sim) now() time.Time { return s.clock().UTC() }

// nextID numbers everything.
func (s *Sim) nextID() int64 {
	s.lastID++
	return s.lastID
}

// userByLogin finds a person, organization or bot.
func (s *Sim) userByLogin(login string) (*user, error) {
	if u := s.users[strings.ToLower(login)]; u != nil {
		return u, nil
	}
	return nil, &Error{Status: http.StatusNotFound, Message: "Not Found", Detail: "user " + login}
}

// repoByName finds a repository.
func (s *Sim) repoByName(owner, name string) (*repo, error) {
	name = strings.TrimSuffix(name, ".git")
	if r := s.repos[strings.ToLower(owner+"/"+name)]; r != nil {
		return r, nil
	}
	return nil, &Error{Status: http.StatusNotFound, Message: "Not Found", Detail: "repository " + owner + "/" + name}
}

// numbered finds an issue or pull request.
func (r *repo) numbered(number int) (*issue, error) {
	if i := r.issue(number); i != nil {
		return i, nil
	}
	return nil, &Error{
		Status: http.StatusNotFound, Message: "Not Found", Detail: fmt.Sprintf("%s#%d", r.fullName(), number),
	}
}
