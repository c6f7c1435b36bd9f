package action

import (
	"path/filepath"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// environment is what the runner tells a step.
type environment struct {
	eventName, eventPath string
	owner, repo          string
	// workspace is where the repository may be checked out, temp a directory of the job's own.
	workspace, temp string
	// apiURL and graphQLURL are GitHub's APIs, serverURL its pages.
	apiURL, graphQLURL, serverURL string
	// output and summary are files that the runner reads after the step.
	output, summary string
}

var nameRE = strs.Lazy(`^[A-Za-z0-9._-]{1,100}$`)

// readEnvironment reads what the runner tells; without a runner it is a *run.UserError.
func readEnvironment(env func(string) string) (environment, error) {
	e := environment{
		eventName: env("GITHUB_EVENT_NAME"), eventPath: env("GITHUB_EVENT_PATH"),
		workspace: env("GITHUB_WORKSPACE"), temp: env("RUNNER_TEMP"),
		apiURL: env("GITHUB_API_URL"), graphQLURL: env("GITHUB_GRAPHQL_URL"),
		serverURL: strings.TrimSuffix(env("GITHUB_SERVER_URL"), "/"),
		output:    env("GITHUB_OUTPUT"), summary: env("GITHUB_STEP_SUMMARY"),
	}
	var ok bool
	e.owner, e.repo, ok = strings.Cut(env("GITHUB_REPOSITORY"), "/")
	if !ok || !nameRE().MatchString(e.owner) || !nameRE().MatchString(e.repo) || e.eventName == "" ||
		!filepath.IsAbs(e.eventPath) || !filepath.IsAbs(e.temp) {
		return environment{}, &run.UserError{
			Message: "this is not a step of a GitHub Actions workflow: GITHUB_REPOSITORY, GITHUB_EVENT_NAME, " +
				"GITHUB_EVENT_PATH or RUNNER_TEMP is missing",
			Hint: "use the action (uses: org/ralph-action@v1), or run `ralph-bot run PLAN.md` on your own machine",
		}
	}
	return e, nil
}
