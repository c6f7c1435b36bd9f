package spend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// Scope is something that money is counted for, and what it may cost.
type Scope struct {
	// Key says what, such as "run:ID"; see RunScope and its like.
	Key string
	// Limit is the most that may be spent; 0 means that it is only counted.
	Limit USD
}

// RunScope counts what a run costs.
func RunScope(id run.ID, limit USD) Scope { return Scope{"run:" + string(id), limit} }

// TaskScope counts what a task costs in its run.
func TaskScope(id run.ID, task string, limit USD) Scope {
	return Scope{"task:" + string(id) + "/" + task, limit}
}

// IssueScope counts what all runs of an issue cost.
func IssueScope(node string, limit USD) Scope { return Scope{"issue:" + node, limit} }

// DayScope counts what the runs of a repository cost on a day (2006-01-02); a
// request counts for the day on which its agent was started.
func DayScope(repo, day string, limit USD) Scope { return Scope{"day:" + repo + "/" + day, limit} }

// name is what a person calls the scope with that key.
func name(key string) string {
	kind, _, _ := strings.Cut(key, ":")
	switch kind {
	case "run", "task", "issue":
		return "the " + kind
	case "day":
		return "the repository and the day"
	default:
		return key
	}
}

// Start is one start of an agent or a check, which requests are charged to.
type Start struct {
	Name   string
	Scopes []Scope
	// Hosts are those it may reach through the proxy, as a list of package egress;
	// none means none.
	Hosts []string
}

// Limited says whether any limit holds for the start.
func (s Start) Limited() bool {
	return slices.ContainsFunc(s.Scopes, func(scope Scope) bool { return scope.Limit > 0 })
}

// Charge is what a request to a model came to.
type Charge struct {
	Model  string
	Tokens Tokens
	Cost   USD
}

// Refusal is a request that was not let through. Of equal ones a start keeps one.
type Refusal struct {
	Reason string
	// Budget: a budget was used up, or could not be kept for want of a price.
	Budget bool
}

// ModelUse is what a start used of one model.
type ModelUse struct {
	Model    string
	Requests int
	Tokens   Tokens
	Cost     USD
}

// Report is what a start used and was refused.
type Report struct {
	// Models is in the order of their names.
	Models  []ModelUse
	Refused []Refusal
	// Hosts are those it reached or was kept from, in the order in which it first
	// came to them.
	Hosts []run.HostUse
}

// ModelUses is Models in the words of everybody.
func (r Report) ModelUses() []run.ModelUse {
	var uses []run.ModelUse
	for _, m := range r.Models {
		uses = append(uses, run.ModelUse{Model: m.Model, Requests: m.Requests, Usage: Report{Models: []ModelUse{m}}.Usage()})
	}
	return uses
}

// Usage is the sum over all models.
func (r Report) Usage() run.Usage {
	var u run.Usage
	var cost USD
	for _, m := range r.Models {
		u.InputTokens += m.Tokens.Input
		u.OutputTokens += m.Tokens.Output
		u.CacheReadTokens += m.Tokens.CacheRead
		u.CacheWriteTokens += m.Tokens.CacheWrite + m.Tokens.CacheWriteLong
		u.Turns += m.Requests
		cost += m.Cost
	}
	u.CostUSD = cost.Dollars()
	return u
}

// OverBudget is the refusal for want of money, if there was one.
func (r Report) OverBudget() (reason string, over bool) {
	i := slices.IndexFunc(r.Refused, func(r Refusal) bool { return r.Budget })
	if i < 0 {
		return "", false
	}
	return r.Refused[i].Reason, true
}

// OverTask says that it was the budget of the task that did not suffice, and not
// one of those that other tasks draw on too.
func (r Report) OverTask() bool {
	reason, over := r.OverBudget()
	return over && strings.Contains(reason, forScope+name("task:"))
}

// forScope stands before the name of a scope in the words of an OverError.
const forScope = " for "

// ErrUnknownStart is returned for a start that was never begun, or has ended.
var ErrUnknownStart = errors.New("spend: unknown start")

// OverError says that a budget is used up.
type OverError struct {
	// Scope is whose, and Spent what is spent there.
	Scope Scope
	Spent USD
}

// Error implements error.
func (e *OverError) Error() string {
	return fmt.Sprintf("budget exhausted: of the %s%s%s %s are spent", e.Scope.Limit, forScope, name(e.Scope.Key), e.Spent)
}

// What is kept of one start, which chooses what it asks for.
const (
	// MaxRefusals bounds the different refusals of each kind.
	MaxRefusals = 20
	// MaxHosts bounds the different hosts and reasons.
	MaxHosts = 60
)

// Ledger is the book that is kept of starts and requests. What its methods did
// when they return is still there when the process is killed the moment after.
// It is safe for concurrent use, also by several processes where they share it.
type Ledger interface {
	// Begin opens a start. Beginning again changes nothing.
	Begin(ctx context.Context, s Start) error
	// Start finds one that was begun and has not ended; otherwise ErrUnknownStart.
	Start(ctx context.Context, name string) (Start, error)
	// End closes a start.
	End(ctx context.Context, name string) error
	// Charge adds a request to what its start used, and its cost to every scope of that. The
	// start may have ended; one that was never begun or is forgotten gets ErrUnknownStart.
	Charge(ctx context.Context, start string, c Charge) error
	// Refuse notes that a request of the start was refused, up to MaxRefusals of each kind.
	Refuse(ctx context.Context, start string, r Refusal) error
	// Reach adds to what a start had to do with a host for the same reason. Beyond MaxHosts
	// hosts are counted together.
	Reach(ctx context.Context, start string, u run.HostUse) error
	// Report says what a start used, reached and was refused; of one that is not known,
	// nothing. Of one that goes on it may count fewer bytes than there were.
	Report(ctx context.Context, start string) (Report, error)
	// Spent is what is spent in a scope.
	Spent(ctx context.Context, key string) (USD, error)
}
