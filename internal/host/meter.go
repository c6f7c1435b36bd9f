package host

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// begin opens the account of an agent's start. From then on its tokens are good.
func (g *Gateway) begin(ctx context.Context, s loop.State, name string) error {
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
	spec.GatewayDir = g.Dir
	if len(g.hosts(s)) == 0 {
		return
	}
	proxy := url.URL{
		Scheme: "http", User: url.UserPassword(gateway.ProxyUser, g.ProxyToken(name)),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(sandbox.DefaultGatewayPort)),
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
	}
	return nil
}

// stopExhausted stops an agent whose budget is used up: it gets no answers any
// more, and not every agent ends by itself then.
func (h *Host) stopExhausted(ctx context.Context, handle sandbox.Handle) error {
	if h.cfg.Gateway == nil {
		return nil
	}
	over, err := h.cfg.Gateway.Meter.Exhausted(ctx, handle.Name)
	if err != nil || !over {
		return err
	}
	if err := h.cfg.Sandbox.Stop(ctx, handle, "budget exhausted"); err != nil {
		return fmt.Errorf("stop %s: %w", handle.Name, err)
	}
	return nil
}
