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
func (c *doctorCmd) models(ctx context.Context, cfg config.Server, r *doctorReport) {
	backend, err := agent.Lookup(cfg.Agent.Name, agentOptions(cfg, ""))
	if err != nil || !cfg.Sandbox.Gated() {
		return // the agent's own check says the former; elsewhere the agent brings its own credentials
	}
	upstreams, err := upstreamsOf(backend, upstreamFrom(cfg.Model))
	if err != nil {
		r.add("model key", "", err)
	}
	for _, u := range upstreams {
		r.add("model key", u.BaseURL.Host+" takes it", u.Check(ctx))
	}
}

// gitHub asks GitHub about the App with its key, and about the repositories it
// is installed on.
func (c *doctorCmd) gitHub(ctx context.Context, cfg config.Server, r *doctorReport) {
	gh, err := ghapp.New(appConfig(cfg))
	if err != nil {
		r.add("GitHub App", "", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, gitHubTimeout)
	defer cancel()
	d := appDoctor{gh: gh, cfg: cfg}
	ok, err := d.clock(ctx)
	r.add("clock", ok, err)
	self, err := gh.Self(ctx)
	if err != nil {
		r.add("GitHub App", "", fix("GitHub does not accept the App's id and key: "+err.Error(),
			"compare github.app_id and the private key with the App's settings page"))
		return
	}
	ok, err = d.app(self)
	r.add("GitHub App", ok, err)
	ok, err = d.hook(ctx)
	r.add("webhook", ok, err)
	ok, err = d.deliveries(ctx)
	r.add("deliveries", ok, err)
	d.installations(ctx, r)
}

// appDoctor looks at one App from outside.
type appDoctor struct {
	gh  *ghapp.App
	cfg config.Server
}

func (d appDoctor) clock(ctx context.Context) (string, error) {
	skew, err := d.gh.ClockSkew(ctx, time.Now)
	switch {
	case err != nil:
		return "", fix("cannot reach GitHub: "+err.Error(), "check this machine's network and github.api_url")
	case skew.Abs() > maxSkew:
		return "", fix(fmt.Sprintf("this machine's clock is %s off GitHub's", skew.Abs().Round(time.Second)),
			"set it with NTP: GitHub rejects Apps whose clock is wrong")
	}
	return "as GitHub's, to " + (skew.Abs() + time.Second).Truncate(time.Second).String(), nil
}

// app says whether the App asks for what it needs.
func (d appDoctor) app(self ghapp.Identity) (string, error) {
	missing := lacking(self.Permissions)
	// An App without checks works, and is not told of them either.
	silent := slices.Equal(missing, []string{"checks: write"})
	deaf := slices.DeleteFunc(handlers.Subscriptions(), func(name string) bool {
		return slices.Contains(self.Events, name) || silent && strings.HasPrefix(name, "check_")
	})
	slices.Sort(deaf)
	switch {
	case len(missing) > 0 && !silent:
		return "", fix("the App lacks permissions: "+strings.Join(missing, ", "),
			"grant them on the App's settings page and accept them in the installation")
	case len(deaf) > 0:
		return "", fix("the App is not subscribed to "+strings.Join(deaf, ", "),
			"subscribe to these events on the App's settings page; the bot does not notice them otherwise")
	case silent:
		return self.Slug + ", but without checks: write, so commits do not show a run's status", nil
	}
	return self.Slug + ", with the permissions and events it needs", nil
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
func (d appDoctor) hook(ctx context.Context) (string, error) {
	h, err := d.gh.Hook(ctx)
	if err != nil {
		return "", err
	}
	to, err := url.Parse(h.URL)
	switch {
	case h.URL == "":
		return "", fix("the App has no webhook, so it receives no events",
			"set the webhook URL on the App's settings page to https://YOUR-HOST"+handlers.DefaultPath)
	case err != nil:
		return "", fix("the webhook goes to "+h.URL+", which is not a valid address", "change it on the App's settings page")
	case !h.JSON:
		return "", fix("webhooks are sent as a form", "choose application/json on the App's settings page")
	case h.Insecure:
		return "", warning{fix("webhooks go to "+h.URL+" without checking its certificate",
			"enable SSL verification on the App's settings page")}
	case to.Path != handlers.DefaultPath:
		return "", warning{fix("webhooks go to "+h.URL+", but the server accepts them at "+handlers.DefaultPath,
			"ignore this if a proxy changes the path; otherwise change it on the App's settings page")}
	}
	return h.URL, nil
}

// deliveries says whether what GitHub sent lately arrived.
func (d appDoctor) deliveries(ctx context.Context) (string, error) {
	attempts, err := d.gh.Attempts(ctx, time.Now().Add(-deliveriesSince))
	if err != nil {
		return "", err
	}
	bot := calledAs()
	if len(attempts) == 0 {
		return "", warning{fix("GitHub has sent nothing in three days",
			"once the server runs, label an issue and run "+bot+" doctor again")}
	}
	arrived := 0
	for _, a := range attempts {
		if a.Arrived {
			arrived++
		}
	}
	const unreached, fetched = "GitHub did not reach the server with the last webhook", "; the bot fetches missed webhooks by itself"
	last := attempts[0]
	switch {
	case last.Arrived:
		return fmt.Sprintf("%d of the last %d arrived, the newest at %s", arrived, len(attempts),
			last.At.UTC().Format(time.DateTime)), nil
	case last.Code == http.StatusUnauthorized:
		return "", fix("the server refused the last webhook: its signature does not match",
			"set the same secret on the App's settings page and for the server")
	case last.Code == 0 && !d.listening(ctx):
		return "", warning{fix(unreached+", and none is running here",
			"start "+bot+" serve and run "+bot+" doctor again"+fetched)}
	case last.Code == 0:
		return "", fix(unreached, "start "+bot+" serve and make the webhook URL reachable from GitHub"+fetched)
	}
	return "", fix(fmt.Sprintf("the last webhook was answered with %d", last.Code),
		"check the proxy in front of the server: it must pass "+handlers.DefaultPath+" on unchanged")
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
func (d appDoctor) installations(ctx context.Context, r *doctorReport) {
	all, err := d.gh.Installations(ctx)
	if err == nil && len(all) == 0 {
		err = warning{fix("the App is not installed anywhere", "install it on repositories, from its settings page")}
	}
	if err != nil {
		r.add("installations", "", err)
	}
	seen, unseen := 0, 0
	for _, in := range all {
		if in.Suspended {
			r.add("installation", "", warning{fix("suspended on "+in.Account, "resume it at "+in.URL)})
			continue
		}
		repos, err := d.gh.Repositories(ctx, in.ID)
		if missing := lacking(in.Permissions); len(missing) > 0 && !slices.Equal(missing, []string{"checks: write"}) {
			err = fix(in.Account+" has not granted "+strings.Join(missing, ", "), "accept the App's new permissions at "+in.URL)
		}
		r.add("installation", "on "+in.Account, err)
		for _, repo := range repos {
			if !d.cfg.People.Serves(repo.Owner, repo.Name) {
				continue
			}
			if seen++; seen > maxDoctored {
				unseen++
				continue
			}
			ok, err := d.repository(ctx, in.ID, repo)
			r.add("repository", ok, warn(true, err))
		}
	}
	if unseen > 0 {
		r.add("repositories", "", warning{fix(fmt.Sprintf("%d more are not checked", unseen),
			"people.repositories narrows what is served")})
	}
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
func (d appDoctor) repository(ctx context.Context, installation int64, r ghapp.Repository) (string, error) {
	full := r.Owner + "/" + r.Name
	if r.Idle {
		return "", fix(full+" is archived or has no issues", "the bot cannot work there")
	}
	repo := d.gh.Repo(installation, r.Owner, r.Name)
	labelled, err := repo.HasLabel(ctx, d.cfg.Label)
	if err != nil {
		return "", err
	}
	rules, err := repo.BranchRules(ctx, run.Branch(1))
	if err != nil {
		return "", err
	}
	var wrong, hints []string
	if !labelled {
		wrong = append(wrong, fmt.Sprintf("has no label %q", d.cfg.Label))
		hints = append(hints, fmt.Sprintf("gh label create %s --repo %s", d.cfg.Label, full))
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
		return "", fix(full+" "+strings.Join(wrong, ", and "), strings.Join(hints, "; "))
	}
	return full + " has the label, and no ruleset blocks the bot", nil
}
