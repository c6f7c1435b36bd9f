package host

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// begin opens the account of an agent's start. From then on its tokens are good.
func (g *Gateway) begin(ctx context.Context, s loop.State, name string) error {
	if g.Unmetered {
		return g.Meter.Begin(ctx, spend.Start{Name: name})
	}
	limit := func(usd float64) spend.USD { return spend.Dollars(max(usd, 0)) }
	start := spend.Start{
		Name: name, Hosts: g.hosts(s), Scopes: []spend.Scope{spend.RunScope(s.Run, limit(s.Limits.BudgetUSD))},
	}
	if s.TaskID != "" {
		start.Scopes = append(start.Scopes, spend.TaskScope(s.Run, s.TaskID, limit(s.Limits.TaskBudgetUSD)))
	}
	if g.Scopes != nil {
		start.Scopes = append(start.Scopes, g.Scopes()...)
	}
	return g.Meter.Begin(ctx, start)
}

// beginCheck opens the account of a check's start, which can use no model.
func (g *Gateway) beginCheck(ctx context.Context, s loop.State, name string) error {
	return g.Meter.Begin(ctx, spend.Start{Name: name, Hosts: g.hosts(s)})
}

// hosts are those that a run may reach: the operator's, or the repository's. The
// gateway lets through what is among both.
func (g *Gateway) hosts(s loop.State) []string {
	switch {
	case g == nil || len(g.Egress) == 0:
		return nil
	case s.Egress != nil:
		return s.Egress
	default:
		return g.Egress
	}
}

// open shows a start the gateway, and in its environment the proxy where it may
// reach any host.
func (g *Gateway) open(s loop.State, name string, spec *sandbox.Spec) {
	if g.Dir == "" {
		return
	}
	spec.GatewayDir = g.Dir
	if len(g.hosts(s)) == 0 {
		return
	}
	proxy := url.URL{
		Scheme: "http", User: url.UserPassword(gateway.ProxyUser, g.ProxyToken(name)),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(sandbox.GatewayPort)),
	}
	// Programs do not agree on the letters.
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		spec.Env[variable] = proxy.String()
	}
	for _, variable := range []string{"NO_PROXY", "no_proxy"} {
		spec.Env[variable] = "localhost,127.0.0.1,::1"
	}
}

// endCheck closes the account of a check that has ended, and says what it
// reached.
func (g *Gateway) endCheck(ctx context.Context, name string) ([]run.HostUse, error) {
	if g == nil {
		return nil, nil
	}
	if err := g.Meter.End(ctx, name); err != nil {
		return nil, err
	}
	report, err := g.Meter.Report(ctx, name)
	return report.Hosts, err
}

// end closes the account of a start whose process has ended, and puts into its
// status what the gateway knows better than the agent does. No gateway knows
// nothing.
func (g *Gateway) end(ctx context.Context, name string, s *loop.AgentStatus) error {
	if g == nil {
		return nil
	}
	if err := g.Meter.End(ctx, name); err != nil {
		return err
	}
	explained := g.explain(name, s)
	g.Watch.Forget(name)
	if g.Unmetered {
		return nil
	}
	report, err := g.Meter.Report(ctx, name)
	if err != nil {
		return err
	}
	s.Models, s.Hosts = report.ModelUses(), report.Hosts
	if g.NoModels {
		return nil
	}
	usage := report.Usage()
	if s.Usage.Turns > 0 {
		usage.Turns = s.Usage.Turns // requests are not all turns
	}
	s.Usage = usage
	if s.Model == "" && len(report.Models) > 0 {
		s.Model = slices.MaxFunc(report.Models, func(a, b spend.ModelUse) int { return a.Requests - b.Requests }).Model
	}
	if reason, over := report.OverBudget(); over && s.Outcome != loop.AgentCompleted {
		// Whatever the agent made of it, that is why.
		s.Outcome, s.Detail = loop.AgentOverBudget, reason
		if report.OverTask() {
			s.Outcome = loop.AgentOverTaskBudget
		}
		return nil
	}
	if len(report.Refused) > 0 {
		reasons := make([]string, 0, len(report.Refused))
		for _, r := range report.Refused {
			reasons = append(reasons, r.Reason)
		}
		s.Detail = strings.TrimPrefix(s.Detail+"; the gateway refused: "+strings.Join(reasons, ", "), "; ")
		if s.Outcome == loop.AgentRateLimited && !explained && usage.OutputTokens == 0 {
			// It is ours to refuse, each time: no wait helps.
			s.Outcome, s.DoFirst, s.Lasts = loop.AgentBroken, "use a model and an agent that the gateway lets through", true
		}
	}
	return nil
}

const (
	// patienceWithLimit is how long a provider may limit an agent that is left to wait by
	// itself.
	patienceWithLimit = time.Minute
	// maxRepeats is how often in a row an agent may ask a provider that limits it before
	// it has done anything, or that it cannot reach. Then the run waits, and says so.
	maxRepeats = 4
)

// verdict is what the gateway knows of the provider that a start has to do with: what
// it refuses, in which words, and whether there is no use in letting the agent go on.
// The outcome is "" where nothing is refused.
func (g *Gateway) verdict(name string) (why agent.Outcome, said string, r gateway.Refused, over bool) {
	r, refused := g.Watch.Last(name)
	if !refused {
		return "", "", r, false
	}
	why, said = agent.ReadAnswer(r.Status, r.Body)
	switch {
	case r.Final:
		over = true
	case why == agent.OutcomeRateLimited:
		over = time.Until(r.RetryAt) >= patienceWithLimit || !r.Worked && r.InARow >= maxRepeats
	case r.Status == 0:
		over = r.InARow >= maxRepeats
	}
	return why, said, r, over
}

// explain has the gateway's word on why an agent failed stand before the agent's: the
// status on the wire is no guess.
func (g *Gateway) explain(name string, s *loop.AgentStatus) (explained bool) {
	why, said, r, _ := g.verdict(name)
	if why == "" || s.Outcome == loop.AgentCompleted && r.Worked {
		return false // without a word of the model there is no work, whatever the agent calls it
	}
	switch {
	case why == agent.OutcomeRateLimited, why == agent.OutcomeUnavailable && s.Outcome != loop.AgentGaveUp:
		s.Outcome, s.Detail, s.DoFirst, s.Lasts = loop.AgentRateLimited, inWords(why, said, r), "", false
		if s.Limit = limitIn(r.Status); why == agent.OutcomeUnavailable {
			s.Limit = s.Detail
		}
		if r.RetryAt.After(s.RetryAt) {
			s.RetryAt = r.RetryAt
		}
	case why.DoFirst() != "" && (r.Final || s.Outcome != loop.AgentGaveUp):
		s.Outcome, s.Detail, s.DoFirst, s.Lasts = loop.AgentBroken, inWords(why, said, r), why.DoFirst(), true
	default:
		return false
	}
	return true
}

// inWords is what a person reads of a refusal.
func inWords(why agent.Outcome, said string, r gateway.Refused) string {
	what := map[agent.Outcome]string{
		agent.OutcomeRateLimited: "limits requests", agent.OutcomeAuth: "refuses the key",
		agent.OutcomeCredit: "says that the account has no credit",
		agent.OutcomeModel:  "does not know the model", agent.OutcomeContext: "finds the request too long",
		agent.OutcomeUnavailable: "fails",
	}[why]
	if r.Status == 0 {
		return fmt.Sprintf("%s cannot be reached: %s", r.Host, said)
	}
	return fmt.Sprintf("%s %s (%d): %s", r.Host, what, r.Status, said)
}

// limitIn says what a status limits.
func limitIn(status int) string {
	if status == http.StatusTooManyRequests {
		return "Rate limited"
	}
	return "Provider overloaded"
}

// stopInVain stops an agent that nothing is to come of any more: its budget is used up,
// or the provider refuses it for good. It gets no answers then, and not every agent ends
// by itself.
func (h *Host) stopInVain(ctx context.Context, handle sandbox.Handle) error {
	g := h.cfg.Gateway
	if g == nil {
		return nil
	}
	why := ""
	if _, _, _, over := g.verdict(handle.Name); over {
		why = "the provider refuses it"
	} else if !g.Unmetered {
		over, err := g.Meter.Exhausted(ctx, handle.Name)
		if err != nil {
			return err
		}
		if over {
			why = "budget exhausted"
		}
	}
	if why == "" {
		return nil
	}
	if err := h.cfg.Sandbox.Stop(ctx, handle, why); err != nil {
		return fmt.Errorf("stop %s: %w", handle.Name, err)
	}
	return nil
}
