package ghsim

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// admin is one request to the admin API under /_sim, which mirrors the methods of Sim: names come from the path, the
// rest from the JSON body.
type admin struct {
	*Sim

	ctx         context.Context //nolint:containedctx // of the request
	owner, repo string
	number      int
	user        string
	branch      string
	app, id     int64 // an App, and what else is meant by its number
	body        []byte
}

// deed is the body of what somebody does to an issue or pull request.
type deed struct {
	User   string       `json:"user"`
	Title  string       `json:"title"`
	Body   string       `json:"body"`
	Label  string       `json:"label"`
	Labels []string     `json:"labels"`
	State  string       `json:"state"`
	Lines  []ReviewLine `json:"lines"`
	// Resolved is whether a conversation is to be resolved, Locked whether an issue is to be locked.
	Resolved bool `json:"resolved"`
	Locked   bool `json:"locked"`
}

// done answers what has no result of its own.
func done(err error) (any, error) { return obj{"ok": err == nil}, err }

// takes reads the body strictly: this API is ours, and a typing error in it should not pass in silence.
func takes[T any](f func(a admin, in T) (any, error)) func(admin) (any, error) {
	return func(a admin) (any, error) {
		var in T
		d := json.NewDecoder(strings.NewReader(string(a.body)))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil && !errors.Is(err, io.EOF) {
			return nil, &Error{Status: http.StatusBadRequest, Message: "body: " + err.Error()}
		}
		return f(a, in)
	}
}

type (
	account struct {
		Login        string `json:"login"`
		Organization bool   `json:"organization"`
	}
	hookInput struct {
		URL    string `json:"url"`
		Secret string `json:"secret"`
	}
	installInput struct {
		Repositories []string `json:"repositories"`
	}
	roleInput struct {
		Role     Role   `json:"role"`
		RoleName string `json:"role_name"`
	}
	pushInput struct {
		PushOptions

		User string `json:"user"`
	}
)

func adminRoutes() map[string]func(admin) (any, error) {
	const apps, repo = "/_sim/apps/{app}", "/_sim/repos/{owner}/{repo}"
	const issue, pull = repo + "/issues/{number}", repo + "/pulls/{number}"
	return map[string]func(admin) (any, error){
		"POST /_sim/users": takes(func(a admin, in account) (any, error) {
			if in.Organization {
				return a.createAccount(in.Login, "Organization")
			}
			return a.CreateUser(in.Login)
		}),
		"POST /_sim/apps": takes(func(a admin, in AppOptions) (any, error) { return a.CreateApp(in) }),
		"POST " + apps + "/hook": takes(func(a admin, in hookInput) (any, error) {
			return done(a.SetHook(a.app, in.URL, in.Secret))
		}),
		"POST " + apps + "/installations": takes(func(a admin, in installInput) (any, error) {
			return a.Install(a.app, in.Repositories...)
		}),
		"GET " + apps + "/deliveries": func(a admin) (any, error) { return a.Deliveries(a.app) },
		"POST " + apps + "/deliveries/{id}/redeliver": func(a admin) (any, error) {
			return done(a.Redeliver(a.app, a.id))
		},
		"POST " + repo: takes(func(a admin, in RepoOptions) (any, error) { return a.CreateRepo(a.owner, a.repo, in) }),
		"PUT " + repo + "/permissions/{user}": takes(func(a admin, in roleInput) (any, error) {
			return done(a.SetPermission(a.owner, a.repo, a.user, in.Role, in.RoleName))
		}),
		"GET " + repo + "/issues": func(a admin) (any, error) { return a.Issues(a.owner, a.repo) },
		"POST " + repo + "/issues": takes(func(a admin, in deed) (any, error) {
			return a.CreateIssue(a.owner, a.repo, in.User, in.Title, in.Body, in.Labels...)
		}),
		"GET " + issue: func(a admin) (any, error) { return a.Issue(a.owner, a.repo, a.number) },
		"PATCH " + issue: takes(func(a admin, in deed) (any, error) {
			return done(a.EditIssue(a.owner, a.repo, a.number, in.User, in.Title, in.Body))
		}),
		"POST " + issue + "/labels": takes(func(a admin, in deed) (any, error) {
			return done(a.AddLabel(a.owner, a.repo, a.number, in.User, in.Label))
		}),
		"DELETE " + issue + "/labels": takes(func(a admin, in deed) (any, error) {
			return done(a.RemoveLabel(a.owner, a.repo, a.number, in.User, in.Label))
		}),
		"POST " + issue + "/comments": takes(func(a admin, in deed) (any, error) {
			return a.Comment(a.owner, a.repo, a.number, in.User, in.Body)
		}),
		"POST " + issue + "/close": takes(func(a admin, in deed) (any, error) {
			return done(a.CloseIssue(a.owner, a.repo, a.number, in.User))
		}),
		"POST " + issue + "/reopen": takes(func(a admin, in deed) (any, error) {
			return done(a.ReopenIssue(a.owner, a.repo, a.number, in.User))
		}),
		"POST " + issue + "/lock": takes(func(a admin, in deed) (any, error) {
			return done(a.LockIssue(a.owner, a.repo, a.number, in.User, in.Locked))
		}),
		"GET " + repo + "/pulls": func(a admin) (any, error) { return a.PRs(a.owner, a.repo) },
		"GET " + pull:            func(a admin) (any, error) { return a.PR(a.owner, a.repo, a.number) },
		"POST " + pull + "/reviews": takes(func(a admin, in deed) (any, error) {
			return a.Review(a.owner, a.repo, a.number, in.User, in.State, in.Body, in.Lines...)
		}),
		"POST " + pull + "/comments/{id}/replies": takes(func(a admin, in deed) (any, error) {
			return a.Reply(a.owner, a.repo, a.number, in.User, a.id, in.Body)
		}),
		"POST " + pull + "/comments/{id}/resolve": takes(func(a admin, in deed) (any, error) {
			return done(a.ResolveThread(a.owner, a.repo, a.number, in.User, a.id, in.Resolved))
		}),
		"POST " + pull + "/merge": takes(func(a admin, in deed) (any, error) {
			return done(a.Merge(a.owner, a.repo, a.number, in.User))
		}),
		"GET " + repo + "/checks":              func(a admin) (any, error) { return a.CheckRuns(a.owner, a.repo) },
		"GET " + repo + "/branches":            func(a admin) (any, error) { return a.Branches(a.owner, a.repo) },
		"GET " + repo + "/commits/{branch...}": func(a admin) (any, error) { return a.BranchCommits(a.owner, a.repo, a.branch) },
		"POST " + repo + "/push/{branch...}": takes(func(a admin, in pushInput) (any, error) {
			oid, err := a.Push(a.owner, a.repo, a.branch, in.User, in.PushOptions)
			return obj{"oid": oid}, err
		}),
		"GET /_sim/calls":        func(a admin) (any, error) { return a.Calls(), nil },      //nolint:unparam // one of many
		"GET /_sim/calls/counts": func(a admin) (any, error) { return a.CallCounts(), nil }, //nolint:unparam // one of many
		"POST /_sim/tokens/expire": func(a admin) (any, error) {
			a.ExpireTokens()
			return done(nil)
		},
		"POST /_sim/faults": takes(func(a admin, in Fault) (any, error) { return done(a.Inject(in)) }),
		"POST /_sim/idle":   func(a admin) (any, error) { return done(a.WaitIdle(a.ctx)) },
	}
}

// newAdmin makes the handler of the admin API.
func (s *Sim) newAdmin() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range adminRoutes() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			result, err := s.administer(w, r, handle)
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

func (s *Sim) administer(w http.ResponseWriter, r *http.Request, handle func(admin) (any, error)) (any, error) {
	// A page from elsewhere in the same browser can post plain forms here, but not JSON.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method != http.MethodGet &&
		(err != nil || kind != "application/json") {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "Content-Type must be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Message: "Request body too large"}
	}
	num := func(name string) int64 {
		n, err := strconv.ParseInt(r.PathValue(name), 10, 64)
		if err != nil {
			return -1 // nothing has that number
		}
		return n
	}
	return handle(admin{
		Sim: s, ctx: r.Context(), owner: r.PathValue("owner"), repo: r.PathValue("repo"), number: int(num("number")),
		user: r.PathValue("user"), branch: r.PathValue("branch"), app: num("app"), id: num("id"), body: body,
	})
}
