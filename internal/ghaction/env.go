package ghaction

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Env is what the runner tells a step by the environment.
type Env struct {
	EventName, EventPath string
	Owner, Repo          string
	// Workspace is where the repository is checked out, Temp a directory of the
	// job's own.
	Workspace, Temp string
	// APIURL and GraphQLURL are GitHub's APIs, ServerURL its pages.
	APIURL, GraphQLURL, ServerURL string
	// Output and Summary are files that the runner reads after the step.
	Output, Summary string
	// Actor started the workflow, TriggeringActor this attempt at it.
	Actor, TriggeringActor string
	// RunURL is the page of the workflow run.
	RunURL string
}

var nameRE = strs.Lazy(`^[A-Za-z0-9._-]{1,100}$`)

// ReadEnv reads the environment of a step.
func ReadEnv(env func(string) string) (Env, error) {
	e := Env{
		EventName: env("GITHUB_EVENT_NAME"), EventPath: env("GITHUB_EVENT_PATH"),
		Workspace: env("GITHUB_WORKSPACE"), Temp: env("RUNNER_TEMP"),
		APIURL: env("GITHUB_API_URL"), GraphQLURL: env("GITHUB_GRAPHQL_URL"),
		ServerURL: strings.TrimSuffix(env("GITHUB_SERVER_URL"), "/"),
		Output:    env("GITHUB_OUTPUT"), Summary: env("GITHUB_STEP_SUMMARY"),
		Actor: env("GITHUB_ACTOR"), TriggeringActor: cmp.Or(env("GITHUB_TRIGGERING_ACTOR"), env("GITHUB_ACTOR")),
	}
	var ok bool
	e.Owner, e.Repo, ok = strings.Cut(env("GITHUB_REPOSITORY"), "/")
	if !ok || !nameRE().MatchString(e.Owner) || !nameRE().MatchString(e.Repo) || e.EventName == "" ||
		!filepath.IsAbs(e.EventPath) || !filepath.IsAbs(e.Temp) {
		return Env{}, &run.UserError{
			Message: "this is not a step of a GitHub Actions workflow: GITHUB_REPOSITORY, GITHUB_EVENT_NAME, " +
				"GITHUB_EVENT_PATH or RUNNER_TEMP is missing",
			Hint: "use the action (uses: org/ralph-action@v1), or run `ralph-bot run PLAN.md` on your own machine",
		}
	}
	if id := env("GITHUB_RUN_ID"); id != "" {
		e.RunURL = fmt.Sprintf("%s/%s/%s/actions/runs/%s", e.ServerURL, e.Owner, e.Repo, id)
	}
	return e, nil
}
