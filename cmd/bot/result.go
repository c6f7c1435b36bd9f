package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// result is the one JSON document that `bot demo --json` and `bot run --json`
// print. Its shape is a contract: fields are added, never changed.
type result struct {
	Issue   *issueResult `json:"issue,omitempty"`
	Run     runResult    `json:"run"`
	Tasks   tasksResult  `json:"tasks"`
	Branch  string       `json:"branch"`
	Commits []commit     `json:"commits"`
	Closing *commit      `json:"closing_commit,omitempty"`
	// PushedTo is the remote that the branch was pushed to, "" for none.
	PushedTo    string         `json:"pushed_to,omitempty"`
	PullRequest *pullResult    `json:"pull_request,omitempty"`
	APICalls    *callsResult   `json:"api_calls,omitempty"`
	Calls       []callLine     `json:"calls,omitempty"`
	Attempts    []attemptLine  `json:"attempts,omitempty"`
	Checks      []checkLine    `json:"checks,omitempty"`
	Findings    []gate.Finding `json:"findings,omitempty"`
}

type issueResult struct {
	Number int    `json:"number"`
	URL    string `json:"url"`
}

type runResult struct {
	ID         run.ID        `json:"id"`
	EndReason  run.EndReason `json:"end_reason"`
	Detail     string        `json:"detail,omitempty"`
	Iterations int           `json:"iterations"`
	CostUSD    float64       `json:"cost_usd"`
	// Proof is what shows that the work is right.
	Proof run.Proof `json:"proof"`
	// Questions are what a person has to answer before the plan is worked.
	Questions []string `json:"questions,omitempty"`
	// AwaitsApproval is the file of a spec that a person has to approve.
	AwaitsApproval string `json:"awaits_approval,omitempty"`
	// Sandbox is what agents and checks ran in: "docker", "local (bubblewrap)",
	// "local (no isolation)".
	Sandbox string `json:"sandbox,omitempty"`
	// TranscriptPath is the directory with what agents were told and said.
	TranscriptPath string `json:"transcript_path,omitempty"`
	// Diagnostics tell a person what was given up last, why, and what to do.
	Diagnostics string `json:"diagnostics,omitempty"`
}

type tasksResult struct {
	Total int `json:"total"`
	Done  int `json:"done"`
}

type commit struct {
	SHA     string `json:"sha"`
	Subject string `json:"subject"`
	// Task is the id of the task the commit lands, "" where it lands none.
	Task string `json:"task"`
	// Verified: GitHub signed it and its tree is the one the gates passed on;
	// null where nobody signs.
	Verified *bool `json:"verified"`
}

type pullResult struct {
	Number int    `json:"number"`
	URL    string `json:"url"`
	Draft  bool   `json:"draft"`
	Body   string `json:"body"`
	// CheckRun is the one on the last commit.
	CheckRun *checkRunResult `json:"check_run,omitempty"`
}

type checkRunResult struct {
	SHA        string `json:"sha"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Title      string `json:"title"`
}

type callsResult struct {
	REST      int            `json:"rest"`
	GraphQL   int            `json:"graphql"`
	ByPurpose map[string]int `json:"by_purpose,omitempty"`
}

// callLine is what one agent call, and the checks after it, used and reached.
type callLine struct {
	Iteration int            `json:"iteration"`
	Task      string         `json:"task,omitempty"`
	Role      run.Role       `json:"role"`
	CostUSD   float64        `json:"cost_usd"`
	Models    []run.ModelUse `json:"models,omitempty"`
	Hosts     []run.HostUse  `json:"hosts,omitempty"`
}

// attemptLine is one agent call that did not land its task.
type attemptLine struct {
	Iteration int    `json:"iteration"`
	Task      string `json:"task"`
	Outcome   string `json:"outcome"`
	Note      string `json:"note"`
	// Role is the part the agent played, Verdict what was done before it.
	Role    run.Role     `json:"role"`
	Verdict loop.Verdict `json:"verdict,omitempty"`
}

// checkLine is how one check went on the last proposal.
type checkLine struct {
	Name    string    `json:"name"`
	Kind    gate.Kind `json:"kind"`
	Command string    `json:"command"`
	// Standing is what came of it; only "failed" holds work back.
	Standing gate.Standing `json:"standing"`
	// Tests are those the standing is about, Note says why in a sentence.
	Tests []string `json:"tests,omitempty"`
	Note  string   `json:"note,omitempty"`
}

// refusal is why a run did not begin, or broke off.
type refusal struct {
	Message string `json:"message"`
	// Hint says what to do.
	Hint     string `json:"hint,omitempty"`
	ExitCode int    `json:"exit_code"`
}

func newRefusal(err error) refusal {
	if user, ok := errors.AsType[*run.UserError](err); ok {
		return refusal{Message: user.Message, Hint: user.Hint, ExitCode: run.ExitUsage}
	}
	return refusal{Message: err.Error(), ExitCode: run.ExitFailed}
}

// newResult is what every door can say of a run.
func newResult(s loop.State) (result, error) {
	r := result{
		Run: runResult{
			ID: s.Run, EndReason: s.End, Proof: s.Proof(), Detail: s.EndDetail,
			Iterations: s.Iterations(), CostUSD: run.Dollars(s.Usage.CostUSD), Questions: s.Questions,
			Diagnostics: diagnostics(s),
		},
		Branch:  s.Branch,
		Commits: []commit{},
	}
	if s.Progress != "" {
		doc, err := progress.Parse([]byte(s.Progress))
		if err != nil {
			return result{}, fmt.Errorf("read the progress of run %s: %w", s.Run, err)
		}
		r.Tasks.Done, r.Tasks.Total = progress.Counts(doc.Tasks())
	}
	for _, c := range s.Commits {
		if c.OID == "" {
			continue // put in place without a commit, as was asked
		}
		r.Commits = append(r.Commits, newCommit(c))
	}
	if s.Closing != nil {
		c := newCommit(*s.Closing)
		r.Closing = &c
	}
	for _, h := range s.History {
		models := slices.Clone(h.Models)
		for i := range models {
			models[i].Usage.CostUSD = run.Dollars(models[i].Usage.CostUSD)
		}
		r.Calls = append(r.Calls, callLine{
			Iteration: h.Number, Task: h.TaskID, Role: h.Role, CostUSD: run.Dollars(h.Usage.CostUSD),
			Models: models, Hosts: h.Hosts,
		})
		if !h.Landed && h.TaskID != "" {
			r.Attempts = append(r.Attempts, attemptLine{
				Iteration: h.Number, Task: h.TaskID, Outcome: h.Outcome, Note: h.Note, Role: h.Role, Verdict: h.Verdict,
			})
		}
	}
	for _, g := range s.LastGates() {
		if s.OfAttempt() {
			g.Verdict.Note = strings.TrimSuffix("on the last attempt, which did not land: "+g.Verdict.Note, ": ")
		}
		r.Checks = append(r.Checks, checkLine{
			Name: g.Gate, Kind: g.Kind, Command: g.Command,
			Standing: g.Verdict.Standing, Tests: g.Verdict.Tests, Note: g.Verdict.Note,
		})
	}
	r.Findings = s.Findings
	return r, nil
}

// diagnostics are those of a run that left something to do about it.
func diagnostics(s loop.State) string {
	if s.End.Complete() {
		return ""
	}
	return s.Diagnostics
}

func newCommit(l loop.Landed) commit {
	return commit{SHA: l.OID, Subject: l.Subject, Task: l.TaskID, Verified: l.Verified}
}

// ended is the error a command returns for a run that ended short: it has been
// told already, and only its exit code is left.
type ended struct{ code int }

// Error implements error.
func (e ended) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// ExitCode implements exitCoder.
func (e ended) ExitCode() int { return e.code }

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
