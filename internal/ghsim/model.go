package ghsim

import (
	"cmp"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// GitHub refuses longer texts with 422 "is too long".
const (
	maxBody  = 65536
	maxTitle = 256
)

// Role is what a person may do in a repository.
type Role string

// The roles of GitHub, weakest first.
const (
	RoleNone     Role = "none"
	RoleRead     Role = "read"
	RoleTriage   Role = "triage"
	RoleWrite    Role = "write"
	RoleMaintain Role = "maintain"
	RoleAdmin    Role = "admin"
)

// rank orders roles; an unknown one is RoleNone.
func (r Role) rank() int {
	return max(0, slices.Index([]Role{RoleNone, RoleRead, RoleTriage, RoleWrite, RoleMaintain, RoleAdmin}, r))
}

func (r Role) valid() bool { return r == RoleNone || r.rank() > 0 }

// legacy is the `permission` of the collaborator API, which knows four values.
func (r Role) legacy() string {
	switch r {
	case RoleMaintain:
		return "write"
	case RoleTriage:
		return "read"
	default:
		return string(r)
	}
}

// grant is a person's role in one repository, and the name of the custom role
// it comes from where it is one.
type grant struct {
	role Role
	name string
}

type user struct {
	id    int64
	login string
	kind  string // User, Bot or Organization
	token string // a personal access token; empty for bots
	app   *app   // whose bot this is
}

// prefix of the node id.
func (u *user) nodeID() string {
	switch u.kind {
	case "Bot":
		return nodeID("BOT", u.id)
	case "Organization":
		return nodeID("O", u.id)
	default:
		return nodeID("U", u.id)
	}
}

// person is how GitHub writes a user into a commit.
func (u *user) person(when time.Time) person {
	return person{Name: u.login, Email: fmt.Sprintf("%d+%s@users.noreply.github.com", u.id, u.login), When: when}
}

// webFlow is the committer of what GitHub itself commits and signs.
func webFlow(when time.Time) person {
	return person{Name: "GitHub", Email: "noreply@github.com", When: when}
}

type app struct {
	id           int64
	slug, name   string
	clientID     string
	clientSecret string
	owner        *user
	bot          *user
	key          *rsa.PrivateKey
	pem          []byte
	permissions  map[string]string
	events       []string
	hook         *hook
	created      time.Time
	installs     []*installation
}

type installation struct {
	id      int64
	app     *app
	account *user
	repos   []*repo
	created time.Time
}

// token is an installation access token.
type token struct {
	id          int64
	value       string
	install     *installation
	permissions map[string]string
	repos       []*repo
	selected    bool // repositories were named when it was made
	expires     time.Time
}

type label struct {
	id          int64
	name, color string
}

type reaction struct {
	id      int64
	user    *user
	content string
	created time.Time
}

type comment struct {
	id               int64
	user             *user
	via              *app
	body             string
	created, updated time.Time
	reactions        []*reaction
}

// event is an entry of an issue's timeline that is not a comment or commit.
type event struct {
	kind     string // labeled, unlabeled, closed, reopened, renamed, …
	actor    *user
	label    *label
	commit   string
	from, to string // of a rename
	at       time.Time
}

// issue is an issue or, where pull is set, a pull request: GitHub numbers,
// labels and comments them alike.
type issue struct {
	id             int64
	number         int
	title, body    string
	user           *user
	via            *app
	closed, locked bool
	// gone: it was deleted, or transferred to what moved is the address of.
	gone             bool
	moved            string
	labels           []*label
	comments         []*comment
	reactions        []*reaction
	events           []*event
	created, updated time.Time
	pull             *pull
}

func (i *issue) state() string {
	if i.closed {
		return "closed"
	}
	return "open"
}

func (i *issue) hasLabel(name string) bool {
	return slices.ContainsFunc(i.labels, func(l *label) bool { return strings.EqualFold(l.name, name) })
}

type pull struct {
	id               int64
	head, base       string // branches
	headOID, baseOID string
	draft            bool
	merged           bool
	mergedAt         time.Time
	reviews          []*review
	threads          []*thread
	commits          []string             // oldest first; they outlive the branch
	arrived          map[string]time.Time // when each commit came to the pull request
}

type review struct {
	id        int64
	user      *user
	state     string // APPROVED, CHANGES_REQUESTED, COMMENTED
	body      string
	commit    string
	submitted time.Time
	reactions []*reaction
}

// thread is a conversation on a line of a pull request.
type thread struct {
	id          int64
	path        string
	start, line int // start is 0 where it is one line
	commit      string
	resolved    *user
	comments    []*reviewComment
}

type reviewComment struct {
	id               int64
	review           *review
	user             *user
	body, commit     string
	diffHunk         string
	created, updated time.Time
	reactions        []*reaction
}

type checkRun struct {
	id                     int64
	app                    *app
	name, headOID          string
	status, conclusion     string
	externalID, detailsURL string
	title, summary, text   string
	annotations            []Annotation
	buttons                []string // their identifiers
	labels                 []string // of the buttons
	started, completed     time.Time
	suiteID                int64
}

type repo struct {
	id      int64
	owner   *user
	name    string
	private bool
	def     string // default branch
	grants  map[int64]grant
	issues  []*issue // by number, from 1
	labels  []*label
	checks  []*checkRun
	git     *gitStore
	// rules are the kinds of rules that are told of; see SetRules.
	rules []string
	// actionsPulls: jobs may open pull requests; see LetActionsOpenPulls.
	actionsPulls bool
	// signed holds the commits that GitHub made itself, with the App or person
	// it made them for.
	signed  map[string]*user
	created time.Time
}

func (r *repo) fullName() string { return r.owner.login + "/" + r.name }

func (r *repo) issue(number int) *issue {
	if number < 1 || number > len(r.issues) || r.issues[number-1].gone {
		return nil
	}
	return r.issues[number-1]
}

func (r *repo) label(name string) *label {
	for _, l := range r.labels {
		if strings.EqualFold(l.name, name) {
			return l
		}
	}
	return nil
}

// role is what u may do in r. An App's bot has no role: its token's
// permissions decide.
func (r *repo) role(u *user) Role {
	if u == nil {
		return RoleNone
	}
	if u == r.owner {
		return RoleAdmin
	}
	if g, ok := r.grants[u.id]; ok {
		return g.role
	}
	if !r.private && u.kind == "User" {
		return RoleRead
	}
	return RoleNone
}

// nodeID is a global id in the style of GitHub's: a type prefix and the number.
func nodeID(prefix string, id int64) string { return fmt.Sprintf("%s_kgDO%08x", prefix, id) }

// tooLong says whether GitHub would refuse the text.
func tooLong(s string, limit int) bool { return utf8.RuneCountInString(s) > limit }

// sortedKeys makes walks over maps repeatable.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// find is the first element that matches.
func find[T any](list []T, match func(T) bool) (T, bool) {
	if at := slices.IndexFunc(list, match); at >= 0 {
		return list[at], true
	}
	var zero T
	return zero, false
}
