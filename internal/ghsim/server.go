package ghsim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/strs"
)

// maxRequest bounds what one request may carry; createCommitOnBranch is
// reported to take about 40 MB.
const maxRequest = 45 << 20

// Call is one request to the REST API, the GraphQL API or git, as it was
// answered.
type Call struct {
	At time.Time `json:"at"`
	// Kind is rest, graphql or git.
	Kind   string `json:"kind"`
	Method string `json:"method"`
	// Route is the path template (/repos/{owner}/{repo}/issues), for GraphQL
	// its fields ("mutation createRef createCommitOnBranch"), for git the service.
	Route string `json:"route"`
	// Path is the path that was asked for, without the API's prefix.
	Path string `json:"path"`
	// Caller names the token: "app:1", "installation:2/token:3", "user:ann",
	// "anonymous".
	Caller string `json:"caller"`
	Status int    `json:"status"`
}

// Calls lists every request so far, in order.
func (s *Sim) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Fault breaks calls on purpose. What matches is answered with Status, Header
// and Body in place of the real answer, or loses its connection.
type Fault struct {
	// Method to match; empty means any.
	Method string `json:"method"`
	// Match is a regular expression for the path without the API's prefix
	// ("^/repos/acme/widgets/git/refs$"). A GraphQL call is matched as
	// "/graphql createCommitOnBranch", by each of its fields, a git call as
	// "/acme/widgets.git/git-upload-pack".
	Match string `json:"match"`
	// Times is how many calls are hit; 0 means one.
	Times int `json:"times"`
	// Hits says of each call that matches whether it is hit; such a fault never runs out.
	// It is asked under the lock of the Sim.
	Hits func(method, target string) bool `json:"-"`
	// Status, Header and Body are the answer. Status 0 leaves the real answer.
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
	// After does the work before it answers wrongly: the caller cannot know.
	After bool `json:"after"`
	// Drop closes the connection without an answer.
	Drop bool `json:"drop"`
	// Hold keeps the call waiting, before anything is done, until it is closed.
	Hold <-chan struct{} `json:"-"`
	// Held is told of each call that is kept waiting, if it listens or has room.
	Held chan<- struct{} `json:"-"`
}

type fault struct {
	Fault
	match *regexp.Regexp
	left  int
}

// Inject adds a fault; several are tried in the order they came.
func (s *Sim) Inject(f Fault) error {
	re, err := regexp.Compile(f.Match)
	if err != nil {
		return fmt.Errorf("ghsim: fault: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault{Fault: f, match: re, left: max(1, f.Times)})
	return nil
}

// takeFault finds the fault for a call, under any of its names, and counts it.
func (s *Sim) takeFault(method string, targets ...string) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		at := slices.IndexFunc(targets, f.match.MatchString)
		if f.left == 0 || f.Method != "" && !strings.EqualFold(f.Method, method) || at < 0 {
			continue
		}
		if f.Hits == nil {
			f.left--
		} else if !f.Hits(method, targets[at]) {
			continue
		}
		return f
	}
	return nil
}

// wait keeps a call waiting that a fault holds; false means that nobody waits for its answer any more.
func (s *Sim) wait(r *http.Request, f *fault) bool {
	if f == nil || f.Hold == nil {
		return true
	}
	select {
	case f.Held <- struct{}{}:
	default:
	}
	select {
	case <-f.Hold:
		return true
	case <-r.Context().Done():
	case <-s.life.Done():
	}
	return false
}

// call is one API request on its way through.
type call struct {
	*http.Request

	who    principal
	route  *route
	params map[string]string
	repo   *repo
	// issue and comment are what the path names.
	issue   *issue
	comment *comment
	body    []byte
	header  http.Header // of the answer
}

func (c *call) str(name string) string { return c.params[name] }

// num reads a number from the path; what is none matches nothing.
func (c *call) num(name string) int {
	n, err := strconv.Atoi(c.params[name])
	if err != nil {
		return -1
	}
	return n
}

// query is a parameter of the address, or what stands for none.
func (c *call) query(name, none string) string { return cmp.Or(c.URL.Query().Get(name), none) }

// number is a parameter that counts, from 1 to most.
func (c *call) number(name string, none, most int) int {
	n, err := strconv.Atoi(c.URL.Query().Get(name))
	if err != nil || n < 1 {
		return none
	}
	return min(n, most)
}

// paginate cuts the page that was asked for and links the next one.
func paginate[T any](c *call, items []T) []T {
	per, page := c.number("per_page", 30, 100), c.number("page", 1, 1<<30)
	from := min((page-1)*per, len(items))
	to := min(from+per, len(items))
	if to < len(items) {
		q := c.URL.Query()
		q.Set("page", strconv.Itoa(page+1))
		c.header.Set("Link", fmt.Sprintf(`<http://%s%s?%s>; rel="next"`, c.Host, c.URL.EscapedPath(), q.Encode()))
	}
	return items[from:to]
}

// list answers with a page of items.
func list[T, S any](c *call, items []T, shape func(T) S) (int, any, error) {
	return http.StatusOK, shapes(paginate(c, items), shape), nil
}

// withBody reads the JSON body of a call for its handler. Unknown fields are ignored, as GitHub does.
func withBody[T any](handle func(*call, T) (int, any, error)) func(*call) (int, any, error) {
	return func(c *call) (int, any, error) {
		var in T
		err := json.Unmarshal([]byte(cmp.Or(strings.TrimSpace(string(c.body)), "{}")), &in)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return 0, nil, unprocessable(fmt.Sprintf("Invalid request.\n\nFor '%s', %s is not a %s.", wrong.Field, wrong.Value,
				wrong.Type))
		}
		if err != nil {
			return 0, nil, &Error{Status: http.StatusBadRequest, Message: "Problems parsing JSON"}
		}
		return handle(c, in)
	}
}

// route is one REST operation.
type route struct {
	method, template string
	// need is the permission an installation token must hold ("issues:write"), "app" for calls that only an
	// App's JWT may make, "token" for any installation token, "" for what everybody may ask. "issue" and
	// "comment" mean issues or pull_requests, whichever the path names or the comment is on.
	need    string
	handle  func(*call) (status int, body any, err error)
	pattern *regexp.Regexp
	names   []string
}

var templateParam = strs.Lazy(`\{(\w+)(\+?)\}`)

// newRoute compiles a template. {name} is one segment, {name+} any number.
func newRoute(method, template, need string, handle func(*call) (int, any, error)) *route {
	r := &route{method: method, template: strings.ReplaceAll(template, "+}", "}"), need: need, handle: handle}
	re := templateParam().ReplaceAllStringFunc(template, func(p string) string {
		m := templateParam().FindStringSubmatch(p)
		r.names = append(r.names, m[1])
		if m[2] == "+" {
			return "(.+)"
		}
		return "([^/]+)"
	})
	r.pattern = regexp.MustCompile("^" + re + "$")
	return r
}

// match takes the parameters out of an escaped path.
func (r *route) match(path string) (map[string]string, bool) {
	m := r.pattern.FindStringSubmatch(path)
	if m == nil {
		return nil, false
	}
	params := map[string]string{}
	for i, name := range r.names {
		v, err := url.PathUnescape(m[i+1])
		if err != nil {
			return nil, false
		}
		params[name] = v
	}
	return params, true
}

// answer is a response before it is sent.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// handler serves everything.
func (s *Sim) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		switch {
		case strings.HasPrefix(path, "/api/v3/"):
			s.serveAPI(w, r, "rest", strings.TrimPrefix(path, "/api/v3"), s.rest)
		case path == "/api/graphql":
			s.serveAPI(w, r, "graphql", "/graphql", s.graphql)
		case strings.HasPrefix(path, "/_sim/"):
			s.admin.ServeHTTP(w, r)
		case gitPath().MatchString(path):
			s.serveGit(w, r)
		case isNewApp(path):
			s.serveNewApp(w, r)
		default:
			s.servePage(w, r)
		}
	})
}

// serveAPI reads the request, lets faults at it, answers and writes the log.
func (s *Sim) serveAPI(w http.ResponseWriter, r *http.Request, kind, path string, serve func(*call) answer) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	entry := Call{Kind: kind, Method: r.Method, Route: "unknown", Path: path}
	// What was begun is finished, whether or not the caller waits for it: a ref
	// never moves without the events that follow from it.
	c := &call{Request: r.WithContext(context.WithoutCancel(r.Context())), body: body, header: http.Header{}}
	targets := []string{path}
	if kind == "graphql" {
		operation, fields := fieldsOf(body)
		entry.Route = strings.TrimSpace(operation + " " + strings.Join(fields, " "))
		for i, field := range fields {
			fields[i] = path + " " + field
		}
		if len(fields) > 0 {
			targets = fields
		}
	} else if s.match(c, path) {
		entry.Route = c.route.template
	}
	f := s.takeFault(r.Method, targets...)
	if !s.wait(r, f) {
		return
	}
	a := s.answerAPI(c, f, err, &entry, serve)
	if f != nil && f.Drop {
		panic(http.ErrAbortHandler) // net/http's way to close the connection
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the caller went away: nothing to tell it
}

// answerAPI makes the answer, real or broken by a fault, under the lock.
func (s *Sim) answerAPI(c *call, f *fault, broken error, entry *Call, serve func(*call) answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a answer
	who, refusal := s.identify(c.Request)
	c.who, entry.Caller = who, who.name()
	switch {
	case broken != nil:
		a = errorAnswer(&Error{Status: http.StatusRequestEntityTooLarge, Message: "Request body too large"})
	case f != nil && !f.After && (f.Status != 0 || f.Drop):
		// Nothing is done.
	case refusal != nil:
		a = errorAnswer(refusal)
	default:
		a = serve(c)
	}
	if f != nil && f.Status != 0 {
		a = answer{status: f.Status, body: []byte(f.Body), header: http.Header{}}
		a.header.Set("Content-Type", "application/json; charset=utf-8")
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	maps.Copy(a.header, c.header)
	dress(&a)
	if f != nil {
		for k, v := range f.Header {
			a.header.Set(k, v)
		}
	}
	entry.Status = a.status
	s.record(*entry)
	return a
}

// dress adds the headers GitHub puts on everything.
func dress(a *answer) {
	id := randomBytes(10)
	h := a.header
	h.Set("X-GitHub-Request-Id", fmt.Sprintf("%X:%X:%X", id[:2], id[2:6], id[6:]))
	h.Set("X-Content-Type-Options", "nosniff")
}

func jsonAnswer(status int, body any) answer {
	a := answer{status: status, header: http.Header{}}
	a.header.Set("Content-Type", "application/json; charset=utf-8")
	if body == nil {
		return a
	}
	b, err := json.Marshal(body)
	if err != nil { // our own maps: cannot happen, and must not pass in silence
		panic(fmt.Sprintf("ghsim: answer: %v", err))
	}
	a.body = b
	return a
}

func errorAnswer(err error) answer {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Status: http.StatusInternalServerError, Message: err.Error()}
	}
	body := obj{
		"message": e.Message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(e.Status),
	}
	if len(e.Fields) > 0 {
		body["errors"] = e.Fields
	}
	return jsonAnswer(e.Status, body)
}

// match finds the route of a REST call and its parameters.
func (s *Sim) match(c *call, path string) bool {
	for _, r := range s.routes {
		if r.method != c.Method {
			continue
		}
		if params, ok := r.match(path); ok {
			c.route, c.params = r, params
			return true
		}
	}
	return false
}

// rest answers a REST call.
func (s *Sim) rest(c *call) answer {
	if c.route == nil {
		return errorAnswer(notFound())
	}
	if err := s.authorise(c); err != nil {
		return errorAnswer(err)
	}
	status, body, err := c.route.handle(c)
	if err != nil {
		return errorAnswer(err)
	}
	return jsonAnswer(status, body)
}

// authorise decides whether the caller may make the call, and finds what its path names.
func (s *Sim) authorise(c *call) error {
	need, who := c.route.need, c.who
	if need == "app" && who.app == nil || need != "app" && need != "" && who.app != nil {
		return jwtRefused("A JSON web token could not be decoded")
	}
	if need == "token" && who.tok == nil {
		return forbidden()
	}
	permission, want, ok := strings.Cut(need, ":")
	if !ok {
		return nil
	}
	r, err := s.repoByName(c.str("owner"), c.str("repo"))
	if err != nil {
		return notFound()
	}
	c.repo = r
	missing := c.find()
	if permission == "issue" || permission == "comment" {
		permission = "issues"
		if c.issue != nil && c.issue.pull != nil {
			permission = "pull_requests"
		}
	}
	switch {
	case who.tok != nil && !who.tok.covers(r), who.user != nil && r.role(who.user) == RoleNone,
		who.anonymous() && r.private:
		return notFound()
	case who.tok != nil && !who.tok.allows(permission, want):
		return forbidden()
	case who.anonymous() && want != "read":
		return &Error{Status: http.StatusUnauthorized, Message: "Requires authentication"}
	case who.user != nil && want != "read": // people act through the methods of Sim
		return &Error{Status: http.StatusForbidden, Message: "Must have admin rights to Repository."}
	}
	return missing
}

// find finds the issue or comment that the path names.
func (c *call) find() error {
	ok := true
	switch {
	case c.params["issue_number"] != "":
		n := c.num("issue_number")
		if c.issue = c.repo.issue(n); c.issue == nil && n > 0 && n <= len(c.repo.issues) && c.repo.issues[n-1].moved != "" {
			c.header.Set("Location", c.repo.issues[n-1].moved)
			return &Error{Status: http.StatusMovedPermanently, Message: "Moved Permanently"}
		}
		ok = c.issue != nil
	case c.params["pull_number"] != "":
		c.issue = c.repo.issue(c.num("pull_number"))
		ok = c.issue != nil && c.issue.pull != nil
	case c.params["comment_id"] != "":
		ok = false
		for _, i := range c.repo.issues {
			if c.comment, ok = find(i.comments, func(cm *comment) bool { return cm.id == int64(c.num("comment_id")) }); ok {
				c.issue = i
				break
			}
		}
	}
	if !ok {
		return notFound()
	}
	return nil
}
