package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/run"
)

const (
	// gitHubTimeout bounds all questions to GitHub together.
	gitHubTimeout = time.Minute
	// maxSkew is how far clocks may be apart: GitHub refuses an App's token that
	// is more than a minute from the future.
	maxSkew = 30 * time.Second
	// deliveriesSince is how far back deliveries are looked at, as long as GitHub
	// keeps them.
	deliveriesSince = 72 * time.Hour
	// maxDoctored is how many repositories are looked at one by one.
	maxDoctored = 25
)

// models asks the endpoints behind the gateway whether they take the keys.
func (c *doctorCmd) models(ctx context.Context, cfg config.Server) []finding {
	backend, err := agent.Lookup(cfg.Agent.Name, agentOptions(cfg, ""))
	if err != nil || cfg.Sandbox.Kind != config.SandboxDocker {
		return nil // the agent's own check says the former; elsewhere the agent brings its own credentials
	}
	upstreams, err := upstreamsOf(backend, upstreamFrom(cfg.Model))
	if err != nil {
		return []finding{{what: "model key", err: err}}
	}
	var out []finding
	for _, u := range upstreams {
		out = append(out, finding{what: "model key", ok: u.BaseURL.Host + " takes it", err: u.Check(ctx)})
	}
	return out
}

// gitHub asks GitHub about the App with its key, and about the repositories it
// is installed on.
func (c *doctorCmd) gitHub(ctx context.Context, cfg config.Server) []finding {
	gh, err := ghapp.New(ghapp.Config{
		APIURL: cfg.GitHub.APIURL, GraphQLURL: cfg.GitHub.GraphQLURL, WebURL: cfg.GitHub.WebURL,
		AppID: cfg.GitHub.AppID, PrivateKey: []byte(cfg.GitHub.PrivateKey.Reveal()), UserAgent: "ralph-bot",
	})
	if err != nil {
		return []finding{{what: "GitHub App", err: err}}
	}
	ctx, cancel := context.WithTimeout(ctx, gitHubTimeout)
	defer cancel()
	d := appDoctor{gh: gh, cfg: cfg}
	out := []finding{d.clock(ctx)}
	app, known := d.app(ctx)
	out = append(out, app)
	if known {
		out = append(out, d.hook(ctx), d.deliveries(ctx))
		out = append(out, d.installations(ctx)...)
	}
	return out
}

// appDoctor looks at one App from outside.
type appDoctor struct {
	gh  *ghapp.App
	cfg config.Server
}

func (d appDoctor) clock(ctx context.Context) finding {
	f := finding{what: "clock"}
	skew, err := d.gh.ClockSkew(ctx, time.Now)
	switch {
	case err != nil:
		f.err = &run.UserError{
			Message: "cannot reach GitHub: " + err.Error(), Hint: "check this machine's network and github.api_url", Err: err,
		}
	case skew.Abs() > maxSkew:
		f.err = &run.UserError{
			Message: fmt.Sprintf("this machine's clock is %s off GitHub's", skew.Abs().Round(time.Second)),
			Hint:    "set it with NTP: GitHub rejects Apps whose clock is wrong",
		}
	default:
		f.ok = "as GitHub's, to " + (skew.Abs() + time.Second).Truncate(time.Second).String()
	}
	return f
}

// app says whether GitHub knows the App, and whether it asks for what it needs.
func (d appDoctor) app(ctx context.Context) (_ finding, known bool) {
	f := finding{what: "GitHub App"}
	self, err := d.gh.Self(ctx)
	if err != nil {
		f.err = &run.UserError{
			Message: "GitHub does not accept the App's id and key: " + err.Error(),
			Hint:    "compare github.app_id and the private key with the App's settings page", Err: err,
		}
		return f, false
	}
	missing := lacking(self.Permissions)
	// An App without checks works, and is not told of them either.
	silent := slices.Equal(missing, []string{"checks: write"})
	deaf := slices.DeleteFunc(handlers.Subscriptions(), func(name string) bool {
		return slices.Contains(self.Events, name) || silent && strings.HasPrefix(name, "check_")
	})
	slices.Sort(deaf)
	switch {
	case len(missing) > 0 && !silent:
		f.err = &run.UserError{
			Message: "the App lacks permissions: " + strings.Join(missing, ", "),
			Hint:    "grant them on the App's settings page and accept them in the installation",
		}
	case len(deaf) > 0:
		f.err = &run.UserError{
			Message: "the App is not subscribed to " + strings.Join(deaf, ", "),
			Hint:    "subscribe to these events on the App's settings page; the bot does not notice them otherwise",
		}
	case silent:
		f.ok = self.Slug + ", but without checks: write, so commits do not show a run's status"
	default:
		f.ok = self.Slug + ", with the permissions and events it needs"
	}
	return f, true
}

// lacking are the permissions that the App needs and has not.
func lacking(have map[string]string) []string {
	var missing []string
	for name, want := range ghapp.Permissions() {
		if has := have[name]; has != want && has != "write" && has != "admin" {
			missing = append(missing, name+": "+want)
		}
	}
	slices.Sort(missing)
	return missing
}

// hook says whether GitHub sends webhooks to where the server takes them.
func (d appDoctor) hook(ctx context.Context) finding {
	f := finding{what: "webhook"}
	h, err := d.gh.Hook(ctx)
	if err != nil {
		f.err = err
		return f
	}
	fix := "change it on the App's settings page"
	to, err := url.Parse(h.URL)
	switch {
	case h.URL == "":
		f.err = &run.UserError{
			Message: "the App has no webhook, so it receives no events",
			Hint:    "set the webhook URL on the App's settings page to https://YOUR-HOST" + handlers.DefaultPath,
		}
	case err != nil:
		f.err = &run.UserError{Message: "the webhook goes to " + h.URL + ", which is not a valid address", Hint: fix}
	case !h.JSON:
		f.err = &run.UserError{
			Message: "webhooks are sent as a form", Hint: "choose application/json on the App's settings page",
		}
	case h.Insecure:
		f.optional = true
		f.err = &run.UserError{
			Message: "webhooks go to " + h.URL + " without checking its certificate",
			Hint:    "enable SSL verification on the App's settings page",
		}
	case to.Path != handlers.DefaultPath:
		f.optional = true
		f.err = &run.UserError{
			Message: "webhooks go to " + h.URL + ", but the server accepts them at " + handlers.DefaultPath,
			Hint:    "ignore this if a proxy changes the path; otherwise " + fix,
		}
	default:
		f.ok = h.URL
	}
	return f
}

// deliveries says whether what GitHub sent lately arrived.
func (d appDoctor) deliveries(ctx context.Context) finding {
	f := finding{what: "deliveries"}
	attempts, err := d.gh.Attempts(ctx, time.Now().Add(-deliveriesSince))
	if err != nil {
		f.err = err
		return f
	}
	if len(attempts) == 0 {
		f.optional = true
		f.err = &run.UserError{
			Message: "GitHub has sent nothing in three days",
			Hint:    "once the server runs, label an issue and run " + calledAs() + " doctor again",
		}
		return f
	}
	arrived := 0
	for _, a := range attempts {
		if a.Arrived {
			arrived++
		}
	}
	last := attempts[0]
	switch {
	case last.Arrived:
		f.ok = fmt.Sprintf("%d of the last %d arrived, the newest at %s", arrived, len(attempts),
			last.At.UTC().Format(time.DateTime))
	case last.Code == http.StatusUnauthorized:
		f.err = &run.UserError{
			Message: "the server refused the last webhook: its signature does not match",
			Hint:    "set the same secret on the App's settings page and for the server",
		}
	case last.Code == 0 && !d.listening(ctx):
		f.optional = true
		f.err = &run.UserError{
			Message: "GitHub did not reach the server with the last webhook, and none is running here",
			Hint: fmt.Sprintf("start %[1]s serve and run %[1]s doctor again; the bot fetches missed "+
				"webhooks by itself", calledAs()),
		}
	case last.Code == 0:
		f.err = &run.UserError{
			Message: "GitHub did not reach the server with the last webhook",
			Hint: "start " + calledAs() + " serve and make the webhook URL reachable from GitHub; the bot fetches " +
				"missed webhooks by itself",
		}
	default:
		f.err = &run.UserError{
			Message: fmt.Sprintf("the last webhook was answered with %d", last.Code),
			Hint:    "check the proxy in front of the server: it must pass " + handlers.DefaultPath + " on unchanged",
		}
	}
	return f
}

// listening says whether anybody takes connections where the server would.
func (d appDoctor) listening(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.cfg.Listen)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// installations looks at where the App is installed, and there at each
// repository that is served.
func (d appDoctor) installations(ctx context.Context) []finding {
	f := finding{what: "installations"}
	all, err := d.gh.Installations(ctx)
	if err != nil {
		f.err = err
		return []finding{f}
	}
	if len(all) == 0 {
		f.optional = true
		f.err = &run.UserError{
			Message: "the App is not installed anywhere", Hint: "install it on repositories, from its settings page",
		}
		return []finding{f}
	}
	var out []finding
	seen, unseen := 0, 0
	for _, in := range all {
		f := finding{what: "installation", ok: "on " + in.Account}
		missing := lacking(in.Permissions)
		switch {
		case in.Suspended:
			f.optional = true
			f.err = &run.UserError{Message: "suspended on " + in.Account, Hint: "resume it at " + in.URL}
			out = append(out, f)
			continue
		case len(missing) > 0 && !slices.Equal(missing, []string{"checks: write"}):
			f.err = &run.UserError{
				Message: in.Account + " has not granted " + strings.Join(missing, ", "),
				Hint:    "accept the App's new permissions at " + in.URL,
			}
		}
		repos, err := d.gh.Repositories(ctx, in.ID)
		if err != nil {
			f.err = err
		}
		out = append(out, f)
		for _, r := range repos {
			switch {
			case !d.cfg.People.Serves(r.Owner, r.Name):
			case seen == maxDoctored:
				unseen++
			default:
				seen++
				out = append(out, d.repository(ctx, in.ID, r))
			}
		}
	}
	if unseen > 0 {
		out = append(out, finding{
			what: "repositories", optional: true,
			err: &run.UserError{
				Message: fmt.Sprintf("%d more are not checked", unseen), Hint: "people.repositories narrows what is served",
			},
		})
	}
	return out
}

// hindering are the kinds of rules that would refuse what the bot does on its own
// branches, and why. Signatures are none: GitHub signs its commits.
func hindering() map[string]string {
	return map[string]string{
		"creation": "branches must not be created", "update": "branches must not be changed",
		"pull_request":           "changes need a pull request before they may be on a branch",
		"required_status_checks": "commits need checks before they may be on a branch",
		"required_deployments":   "commits need deployments first",
		"workflows":              "commits need workflows first", "merge_queue": "changes need a merge queue",
		"branch_name_pattern":         "names of branches follow a pattern",
		"commit_message_pattern":      "commit messages follow a pattern",
		"commit_author_email_pattern": "authors' addresses follow a pattern",
		"committer_email_pattern":     "committers' addresses follow a pattern",
	}
}

// repository looks at what runs in a repository will meet.
func (d appDoctor) repository(ctx context.Context, installation int64, r ghapp.Repository) finding {
	f := finding{what: "repository", optional: true}
	full := r.Owner + "/" + r.Name
	if r.Idle {
		f.err = &run.UserError{Message: full + " is archived or has no issues", Hint: "the bot cannot work there"}
		return f
	}
	repo := d.gh.Repo(installation, r.Owner, r.Name)
	labelled, err := repo.HasLabel(ctx, d.cfg.Label)
	if err != nil {
		f.err = err
		return f
	}
	var wrong, hints []string
	if !labelled {
		wrong = append(wrong, fmt.Sprintf("has no label %q", d.cfg.Label))
		hints = append(hints, fmt.Sprintf("gh label create %s --repo %s", d.cfg.Label, full))
	}
	rules, err := repo.BranchRules(ctx, run.Branch(1))
	if err != nil {
		f.err = err
		return f
	}
	slices.Sort(rules)
	for _, kind := range slices.Compact(rules) {
		if why, ok := hindering()[kind]; ok {
			wrong = append(wrong, "has a ruleset for "+run.BranchNamed("*")+" by which "+why+" ("+kind+")")
		}
	}
	if len(wrong) > len(hints) {
		hints = append(hints, "let the App bypass the ruleset, or leave "+run.BranchNamed("*")+" out of it")
	}
	if len(wrong) > 0 {
		f.err = &run.UserError{Message: full + " " + strings.Join(wrong, ", and "), Hint: strings.Join(hints, "; ")}
		return f
	}
	f.ok = full + " has the label, and no ruleset blocks the bot"
	return f
}
