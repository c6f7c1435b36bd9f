package ghsim

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// adminRoute is one operation of the admin API under /_sim. It mirrors a
// method of Sim: names come from the path, the rest from the JSON body.
type adminRoute struct {
	pattern string
	handle  func(s *Sim, a admin) (any, error)
}

// admin is one admin request.
type admin struct {
	r    *http.Request
	body []byte
}

func (a admin) str(name string) string { return a.r.PathValue(name) }

func (a admin) num(name string) int {
	n, err := strconv.Atoi(a.r.PathValue(name))
	if err != nil {
		return -1
	}
	return n
}

// read decodes the body strictly: this API is ours, and a typing error in it
// should not pass in silence.
func (a admin) read(into any) error {
	d := json.NewDecoder(strings.NewReader(string(a.body)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return &Error{Status: http.StatusBadRequest, Message: "body: " + err.Error()}
	}
	return nil
}

// deed is the body of what somebody does to an issue or branch.
type deed struct {
	User   string       `json:"user"`
	Title  string       `json:"title"`
	Body   string       `json:"body"`
	Label  string       `json:"label"`
	Labels []string     `json:"labels"`
	State  string       `json:"state"`
	Lines  []ReviewLine `json:"lines"`
	// Resolved is whether a conversation is to be resolved.
	Resolved bool `json:"resolved"`
	// Locked is whether an issue is to be locked.
	Locked bool `json:"locked"`
}

// did answers what has no result of its own.
func did(err error) (any, error) { return obj{"ok": err == nil}, err }

func adminRoutes() []adminRoute {
	const repo = "/_sim/repos/{owner}/{repo}"
	act := func(f func(s *Sim, a admin, in deed) (any, error)) func(*Sim, admin) (any, error) {
		return func(s *Sim, a admin) (any, error) {
			var in deed
			if err := a.read(&in); err != nil {
				return nil, err
			}
			return f(s, a, in)
		}
	}
	return []adminRoute{
		{"POST /_sim/users", func(s *Sim, a admin) (any, error) {
			var in struct {
				Login        string `json:"login"`
				Organization bool   `json:"organization"`
			}
			if err := a.read(&in); err != nil {
				return nil, err
			}
			if in.Organization {
				return s.createAccount(in.Login, "Organization")
			}
			return s.CreateUser(in.Login)
		}},
		{"POST /_sim/apps", func(s *Sim, a admin) (any, error) {
			var in AppOptions
			if err := a.read(&in); err != nil {
				return nil, err
			}
			return s.CreateApp(in)
		}},
		{"POST /_sim/apps/{app}/hook", func(s *Sim, a admin) (any, error) {
			var in struct {
				URL    string `json:"url"`
				Secret string `json:"secret"`
			}
			if err := a.read(&in); err != nil {
				return nil, err
			}
			return did(s.SetHook(int64(a.num("app")), in.URL, in.Secret))
		}},
		{"POST /_sim/apps/{app}/installations", func(s *Sim, a admin) (any, error) {
			var in struct {
				Repositories []string `json:"repositories"`
			}
			if err := a.read(&in); err != nil {
				return nil, err
			}
			return s.Install(int64(a.num("app")), in.Repositories...)
		}},
		{"GET /_sim/apps/{app}/deliveries", func(s *Sim, a admin) (any, error) { return s.Deliveries(int64(a.num("app"))) }},
		{"POST /_sim/apps/{app}/deliveries/{delivery}/redeliver", func(s *Sim, a admin) (any, error) {
			return did(s.Redeliver(int64(a.num("app")), int64(a.num("delivery"))))
		}},
		{"POST " + repo, func(s *Sim, a admin) (any, error) {
			var in RepoOptions
			if err := a.read(&in); err != nil {
				return nil, err
			}
			return s.CreateRepo(a.str("owner"), a.str("repo"), in)
		}},
		{"PUT " + repo + "/permissions/{user}", func(s *Sim, a admin) (any, error) {
			var in struct {
				Role     Role   `json:"role"`
				RoleName string `json:"role_name"`
			}
			if err := a.read(&in); err != nil {
				return nil, err
			}
			return did(s.SetPermission(a.str("owner"), a.str("repo"), a.str("user"), in.Role, in.RoleName))
		}},
		{"GET " + repo + "/issues", func(s *Sim, a admin) (any, error) { return s.Issues(a.str("owner"), a.str("repo")) }},
		{"POST " + repo + "/issues", act(func(s *Sim, a admin, in deed) (any, error) {
			return s.CreateIssue(a.str("owner"), a.str("repo"), in.User, in.Title, in.Body, in.Labels...)
		})},
		{"GET " + repo + "/issues/{number}", func(s *Sim, a admin) (any, error) {
			return s.Issue(a.str("owner"), a.str("repo"), a.num("number"))
		}},
		{"PATCH " + repo + "/issues/{number}", act(func(s *Sim, a admin, in deed) (any, error) {
			return did(s.EditIssue(a.str("owner"), a.str("repo"), a.num("number"), in.User, in.Title, in.Body))
		})},
		{"POST " + repo + "/issues/{number}/labels", act(func(s *Sim, a admin, in deed) (any, error) {
			return did(s.AddLabel(a.str("owner"), a.str("repo"), a.num("number"), in.User, in.Label))
		})},
		{"DELETE " + repo + "/issues/{number}/labels", act(func(s *Sim, a admin, in deed) (any, error) {
			return did(s.RemoveLabel(a.str("owner"), a.str("repo"), a.num("number"), in.User, in.Label))
		})},
		{"POST " + repo + "/issues/{number}/comments", act(func(s *Sim, a admin, in deed) (any, error) {
			return s.Comment(a.str("owner"), a.str("repo"), a.num("number"), in.User, in.Body)
		})},
		{"POST " + repo + "/issues/{number}/close", act(func(s *Sim, a admin, in deed) (any, error) {
			return did(s.CloseIssue(a.str("owner"), a.str("repo"), a.num("number"), in.User))
		})},
		{"POST " + repo + "/issues/{number}/reopen", act(func(s *Sim, a admin, in deed) (any, error) {
			return did(s.ReopenIssue(a.str("owner"), a.str("repo"), a.num("number"), in.User))
		})},
		{"POST " + repo + "/issues/{number}/lock", act(func(s *Sim, a admin, in deed) (any, error) {
			return did(s.LockIssue(a.str("owner"), a.str("repo"), a.num("number"), in.User, in.Locked))
		})},
		{"GET " + repo + "/pulls", func(s *Sim, a admin) (any, error) { return s.PRs(a.str("owner"), a.str("repo")) }},
		{"GET " + repo + "/pulls/{number}", func(s *Sim, a admin) (any, error) {
			return s.PR(a.str("owner"), a.str("repo"), a.num("number"))
		}},
		{"POST " + repo + "/pulls/{number}/reviews", act(func(s *Sim, a admin, in deed) (any, error) {
			return s.Review(a.str("owner"), a.str("repo"), a.num("number"), in.User, in.State, in.Body, in.Lines...)
		})},
		{"POST " + repo + "/pulls/{number}/comments/{comment}/replies", act(func(s *Sim, a admin, in deed) (any, error) {
			return s.Reply(a.str("owner"), a.str("repo"), a.num("number"), in.User, int64(a.num("comment")), in.Body)
		})},
		{"POST " + repo + "/pulls/{number}/comments/{comment}/resolve", act(func(s *Sim, a admin, in deed) (any, error) {
			return did(s.ResolveThread(a.str("owner"), a.str("repo"), a.num("number"), in.User, int64(a.num("comment")),
				in.Resolved))
		})},
		{"POST " + repo + "/pulls/{number}/merge", act(func(s *Sim, a admin, in deed) (any, error) {
			return did(s.Merge(a.str("owner"), a.str("repo"), a.num("number"), in.User))
		})},
		{"GET " + repo + "/checks", func(s *Sim, a admin) (any, error) { return s.CheckRuns(a.str("owner"), a.str("repo")) }},
		{
			"GET " + repo + "/branches", func(s *Sim, a admin) (any, error) { return s.Branches(a.str("owner"), a.str("repo")) },
		},
		{"GET " + repo + "/commits/{branch...}", func(s *Sim, a admin) (any, error) {
			return s.BranchCommits(a.str("owner"), a.str("repo"), a.str("branch"))
		}},
		{"POST " + repo + "/push/{branch...}", func(s *Sim, a admin) (any, error) {
			var in struct {
				PushOptions

				User string `json:"user"`
			}
			if err := a.read(&in); err != nil {
				return nil, err
			}
			oid, err := s.Push(a.str("owner"), a.str("repo"), a.str("branch"), in.User, in.PushOptions)
			return obj{"oid": oid}, err
		}},
		{"GET /_sim/calls", func(s *Sim, _ admin) (any, error) { return s.Calls(), nil }},
		{"GET /_sim/calls/counts", func(s *Sim, _ admin) (any, error) { return s.CallCounts(), nil }},
		{"POST /_sim/tokens/expire", func(s *Sim, _ admin) (any, error) { s.ExpireTokens(); return did(nil) }},
		{"POST /_sim/faults", func(s *Sim, a admin) (any, error) {
			var in Fault
			if err := a.read(&in); err != nil {
				return nil, err
			}
			return did(s.Inject(in))
		}},
		{"POST /_sim/idle", func(s *Sim, a admin) (any, error) { return did(s.WaitIdle(a.r.Context())) }},
	}
}

// newAdmin makes the handler of the admin API.
func (s *Sim) newAdmin() http.Handler {
	mux := http.NewServeMux()
	for _, route := range adminRoutes() {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			result, err := s.administer(w, r, route)
			a := jsonAnswer(http.StatusOK, result)
			if err != nil {
				a = errorAnswer(err)
			}
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(a.status)
			_, _ = w.Write(a.body) // the caller went away: nothing to tell it
		})
	}
	return mux
}

func (s *Sim) administer(w http.ResponseWriter, r *http.Request, route adminRoute) (any, error) {
	// A page from elsewhere in the same browser can post plain forms here, but
	// not JSON.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method != http.MethodGet &&
		(err != nil || kind != "application/json") {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "Content-Type must be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Message: "Request body too large"}
	}
	return route.handle(s, admin{r: r, body: body})
}
