package island

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Call is what one agent call, and the checks after it, used of models, and
// reached or was kept from on the network. Names may be an agent's.
type Call struct {
	Iteration int
	TaskID    string
	Models    []run.ModelUse
	Hosts     []run.HostUse
}

// maxNames bounds the models and the hosts that are named of one call.
const maxNames = 8

// calls tells what was used and reached, a line for each call, the newest where
// there are too many.
func (r *renderer) calls() string {
	var lines []string
	reached, blocked := map[string]bool{}, map[string]bool{}
	for _, c := range r.v.Calls {
		for _, h := range c.Hosts {
			if h.Blocked == "" {
				reached[h.Host] = true
			} else {
				blocked[h.Host] = true
			}
		}
		if line := r.call(c); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 || r.d.calls == 0 {
		return ""
	}
	if n := len(lines) - r.d.calls; n > 0 {
		lines = append([]string{fmt.Sprintf("- … %s earlier", strs.Count(n, "call"))}, lines[n:]...)
	}
	var s section
	s.line("\n<details>\n<summary>Models and hosts: %s reached, %d blocked</summary>\n\n%s\n\n</details>",
		strs.Count(len(reached), "host"), len(blocked), strings.Join(lines, "\n"))
	return s.text()
}

func (r *renderer) call(c Call) string {
	var parts []string
	for i, m := range c.Models {
		if i == maxNames {
			parts = append(parts, fmt.Sprintf("and %d more", len(c.Models)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s, %d tokens in, %d out, US$ %.2f", cmp.Or(r.code(m.Model), "unnamed"),
			strs.Count(m.Requests, "request"),
			m.Usage.InputTokens+m.Usage.CacheReadTokens+m.Usage.CacheWriteTokens, m.Usage.OutputTokens, m.Usage.CostUSD))
	}
	for _, kept := range []bool{false, true} {
		if hosts := r.hosts(c.Hosts, kept); hosts != "" {
			parts = append(parts, hosts)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	where := fmt.Sprintf("Iteration %d", c.Iteration)
	if isID(c.TaskID) {
		where += ", " + c.TaskID
	}
	return "- " + where + ": " + strings.Join(parts, "; ")
}

// hosts names those that were reached, or those that were blocked.
func (r *renderer) hosts(uses []run.HostUse, blocked bool) string {
	var names []string
	more := 0
	for _, h := range uses {
		switch {
		case (h.Blocked != "") != blocked:
		case len(names) == maxNames:
			more++
		default:
			text := fmt.Sprintf("%s %d×", cmp.Or(r.code(h.Host), "unnamed"), h.Count)
			if blocked {
				text += " (" + r.speak(h.Blocked, maxReason) + ")"
			}
			names = append(names, text)
		}
	}
	if len(names) == 0 {
		return ""
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	if blocked {
		return "⛔ blocked: " + strings.Join(names, ", ")
	}
	return "reached " + strings.Join(names, ", ")
}
