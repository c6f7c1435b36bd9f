package progress

import (
	"net/url"

	"github.com/org/ralph-action/internal/strs"
)

// Binding says what a document belongs to, so that a file left by another
// issue or plan is not taken for ours.
type Binding struct {
	// Key is "issue:<node id>" or "plan:<slug>".
	Key string
	// PlanSHA256 is the hash of the plan the tasks were made from, in hex.
	PlanSHA256 string
}

var bindingRE = strs.Lazy(`^<!-- ralph:progress key=(\S+) plan=(\S*) -->[ \t\r]*(?:\n|$)`)

// Binding reads the comment on the first line.
func (d *Doc) Binding() (Binding, bool) {
	m := bindingRE().FindSubmatch(d.src)
	if m == nil {
		return Binding{}, false
	}
	key, err := url.PathUnescape(string(m[1]))
	if err != nil {
		return Binding{}, false
	}
	sum, err := url.PathUnescape(string(m[2]))
	if err != nil {
		return Binding{}, false
	}
	return Binding{Key: key, PlanSHA256: sum}, true
}

func (b Binding) comment() string {
	return "<!-- ralph:progress key=" + url.PathEscape(b.Key) + " plan=" + url.PathEscape(b.PlanSHA256) + " -->"
}

// Rebind says that the document, which belongs to the same subject, now follows
// the plan of that hash. A document without a binding gets one.
func (d *Doc) Rebind(b Binding) error {
	rest := d.src
	if m := bindingRE().FindIndex(d.src); m != nil {
		rest = d.src[m[1]:]
	}
	next, err := Parse(append([]byte(b.comment()+"\n"), rest...))
	if err != nil {
		return err
	}
	*d = *next
	return nil
}
