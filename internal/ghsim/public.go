package ghsim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// User is a person, an organization or an App's bot.
type User struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	// Token is a personal access token for the APIs and for git.
	Token string `json:"token,omitempty"`
}

// RepoOptions say what a new repository holds.
type RepoOptions struct {
	Description string `json:"description"`
	Private     bool   `json:"private"`
	// DefaultBranch is "main" where it is empty.
	DefaultBranch string `json:"default_branch"`
	// Files are the contents of the first commit by path. Without Files and
	// Dir the repository is empty.
	Files map[string]string `json:"files"`
	// Executables are the paths in Files that get mode 100755.
	Executables []string `json:"executables"`
	// Dir is a directory on disk whose regular files and symbolic links are
	// the first commit; a .git in it is left out.
	Dir string `json:"dir"`
}

// Repo is a repository.
type Repo struct {
	ID            int64  `json:"id"`
	NodeID        string `json:"node_id"`
	Owner         string `json:"owner"`
	Name          string `json:"name"`
	Private       bool   `json:"private"`
	DefaultBranch string `json:"default_branch"`
	URL           string `json:"url"`
	CloneURL      string `json:"clone_url"`
	// Dir is the bare repository on disk.
	Dir string `json:"dir"`
}

// AppOptions describe a GitHub App.
type AppOptions struct {
	// Slug is the App's short name; its bot is called slug[bot].
	Slug string `json:"slug"`
	// Owner is the login whose App it is; empty means the user "github".
	Owner string `json:"owner"`
	// HookURL is where webhooks go; empty means nowhere. See SetHook.
	HookURL string `json:"hook_url"`
	// WebhookSecret signs them; empty means a random one.
	WebhookSecret string `json:"webhook_secret"`
	// PrivateKeyPEM is the App's RSA key; empty means a new one. With a key
	// that is kept, an App outlives a restart of the development set-up.
	PrivateKeyPEM []byte `json:"private_key_pem"`
	// Permissions by name, "read" or "write"; metadata:read comes with every App.
	Permissions map[string]string `json:"permissions"`
	// Events the App subscribes to.
	Events []string `json:"events"`
}

// App is a GitHub App and its secrets.
type App struct {
	ID            int64  `json:"id"`
	Slug          string `json:"slug"`
	ClientID      string `json:"client_id"`
	BotLogin      string `json:"bot_login"`
	BotID         int64  `json:"bot_id"`
	PrivateKeyPEM []byte `json:"private_key_pem"`
	WebhookSecret string `json:"webhook_secret"`
}

// Installation is an App installed on an account's repositories.
type Installation struct {
	ID     int64  `json:"id"`
	NodeID string `json:"node_id"`
}

// Reaction is somebody's emoji on an issue or comment.
type Reaction struct {
	User    string `json:"user"`
	Content string `json:"content"`
}

// Comment is a comment on an issue or pull request.
type Comment struct {
	ID        int64      `json:"id"`
	User      string     `json:"user"`
	Body      string     `json:"body"`
	Created   time.Time  `json:"created"`
	Updated   time.Time  `json:"updated"`
	Reactions []Reaction `json:"reactions"`
}

// Issue is an issue, or what a pull request has in common with one.
type Issue struct {
	ID        int64      `json:"id"`
	NodeID    string     `json:"node_id"`
	Number    int        `json:"number"`
	Title     string     `json:"title"`
	Body      string     `json:"body"`
	User      string     `json:"user"`
	State     string     `json:"state"`
	URL       string     `json:"url"`
	Labels    []string   `json:"labels"`
	Comments  []Comment  `json:"comments"`
	Reactions []Reaction `json:"reactions"`
	IsPull    bool       `json:"is_pull"`
}

// PR is a pull request.
type PR struct {
	Issue

	Draft   bool     `json:"draft"`
	Merged  bool     `json:"merged"`
	Head    string   `json:"head"`
	HeadOID string   `json:"head_oid"`
	Base    string   `json:"base"`
	BaseOID string   `json:"base_oid"`
	Commits []Commit `json:"commits"`
	Reviews []Review `json:"reviews"`
}

// Review is a review of a pull request.
type Review struct {
	ID    int64  `json:"id"`
	User  string `json:"user"`
	State string `json:"state"`
	Body  string `json:"body"`
	// Lines are the comments on lines, replies included.
	Lines []ReviewLine `json:"lines"`
}

// ReviewLine is a review comment on one line of the new side of a file.
type ReviewLine struct {
	Path     string `json:"path"`
	Line     int    `json:"line"`
	Body     string `json:"body"`
	User     string `json:"user"`
	Resolved bool   `json:"resolved"`
}

// Commit is a commit on a branch.
type Commit struct {
	OID     string   `json:"oid"`
	Tree    string   `json:"tree"`
	Parents []string `json:"parents"`
	Subject string   `json:"subject"`
	Body    string   `json:"body"`
	// Verified says that GitHub made and signed it.
	Verified    bool      `json:"verified"`
	Author      string    `json:"author"`
	AuthorEmail string    `json:"author_email"`
	Committed   time.Time `json:"committed"`
}

// CheckRun is a check run on a commit.
type CheckRun struct {
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	HeadOID    string `json:"head_oid"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Title      string `json:"title"`
	Summary    string `json:"summary"`
	Text       string `json:"text"`
}

// PushOptions describe a commit that a person pushes.
type PushOptions struct {
	// Message is the commit message.
	Message string `json:"message"`
	// Files to write, by path.
	Files map[string]string `json:"files"`
	// Delete lists paths to remove.
	Delete []string `json:"delete"`
	// From is where a new branch starts; empty means the default branch.
	From string `json:"from"`
	// Force starts an existing branch over at From.
	Force bool `json:"force"`
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// CreateUser makes a person.
func (s *Sim) CreateUser(login string) (User, error) { return s.createAccount(login, "User") }

// CreateOrg makes an organization, which owns repositories and does nothing
// itself.
func (s *Sim) CreateOrg(login string) (User, error) { return s.createAccount(login, "Organization") }

func (s *Sim) createAccount(login, kind string) (User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !validName.MatchString(login) {
		return User{}, invalid("User", "login", "invalid", "")
	}
	if s.users[strings.ToLower(login)] != nil {
		return User{}, invalid("User", "login", "already_exists", "")
	}
	u := &user{id: s.nextID(), login: login, kind: kind}
	u.token = fmt.Sprintf("ghp_%x", randomBytes(18))
	s.users[strings.ToLower(login)] = u
	return User{ID: u.id, Login: u.login, Token: u.token}, nil
}

// CreateRepo makes a repository; the owner is made where there is none.
func (s *Sim) CreateRepo(owner, name string, o RepoOptions) (Repo, error) {
	if !validName.MatchString(owner) || !validName.MatchString(name) || strings.HasSuffix(name, ".git") {
		return Repo{}, invalid("Repository", "name", "invalid", owner+"/"+name)
	}
	if _, err := s.lookUser(owner); err != nil {
		if _, err := s.CreateUser(owner); err != nil {
			return Repo{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.userByLogin(owner)
	if err != nil {
		return Repo{}, err
	}
	if s.repos[strings.ToLower(owner+"/"+name)] != nil {
		return Repo{}, invalid("Repository", "name", "custom", "name already exists on this account")
	}
	def := cmp.Or(o.DefaultBranch, "main")
	git, err := initStore(s.life, s.git, filepath.Join(s.dir, owner, name+".git"), def)
	if err != nil {
		return Repo{}, err
	}
	now := s.now()
	r := &repo{
		id: s.nextID(), owner: u, name: name, description: o.Description, private: o.Private, def: def,
		grants: map[int64]grant{}, git: git, signed: map[string]*user{}, created: now, pushed: now, updated: now,
	}
	s.repos[strings.ToLower(owner+"/"+name)] = r
	if err := s.seed(r, o); err != nil {
		return Repo{}, err
	}
	return s.repoOut(r), nil
}

func (s *Sim) lookUser(login string) (*user, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.userByLogin(login)
}

// seed makes the first commit of a repository.
func (s *Sim) seed(r *repo, o RepoOptions) error {
	type file struct {
		mode string
		data []byte
	}
	files := map[string]file{}
	for path, text := range o.Files {
		mode := modeFile
		if slices.Contains(o.Executables, path) {
			mode = modeExec
		}
		files[path] = file{mode, []byte(text)}
	}
	if o.Dir != "" {
		err := filepath.WalkDir(o.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if d.Name() == ".git" {
					return filepath.SkipDir
				}
				return nil
			}
			rel, err := filepath.Rel(o.Dir, path)
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			f := file{mode: modeFile}
			switch {
			case d.Type()&fs.ModeSymlink != 0:
				target, err := os.Readlink(path)
				if err != nil {
					return err
				}
				f = file{modeLink, []byte(target)}
			case d.Type().IsRegular():
				if info.Mode()&0o100 != 0 {
					f.mode = modeExec
				}
				if f.data, err = os.ReadFile(path); err != nil { //nolint:gosec // the caller names the directory
					return err
				}
			default:
				return nil // neither git nor we store sockets and the like
			}
			files[filepath.ToSlash(rel)] = f
			return nil
		})
		if err != nil {
			return fmt.Errorf("seed %s: %w", r.fullName(), err)
		}
	}
	if len(files) == 0 {
		return nil
	}
	var changes []change
	var contents [][]byte
	for _, path := range sortedKeys(files) {
		if !validPath(path) {
			return invalid("Repository", "files", "invalid", path)
		}
		changes = append(changes, change{Mode: files[path].mode, Path: path})
		contents = append(contents, files[path].data)
	}
	oids, err := r.git.writeBlobs(s.life, contents...)
	if err != nil {
		return err
	}
	for i, oid := range oids {
		changes[i].OID = oid
	}
	tree, err := r.git.writeTree(s.life, "", changes)
	if err != nil {
		return err
	}
	who := r.owner.person(s.now())
	oid, err := r.git.writeCommit(s.life, commitObject{Tree: tree, Author: who, Committer: who, Message: "Initial commit\n"})
	if err != nil {
		return err
	}
	return s.moveRef(s.life, r, author{user: r.owner}, "refs/heads/"+r.def, oid, zeroOID)
}

func (s *Sim) repoOut(r *repo) Repo {
	return Repo{
		ID: r.id, NodeID: nodeID("R", r.id), Owner: r.owner.login, Name: r.name, Private: r.private, DefaultBranch: r.def,
		URL: s.html(r), CloneURL: s.html(r) + ".git", Dir: r.git.dir,
	}
}

// SetPermission gives a person a role. roleName is the name of a custom role;
// empty means that the role is GitHub's own.
func (s *Sim) SetPermission(owner, name, login string, role Role, roleName ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		return err
	}
	u, err := s.userByLogin(login)
	if err != nil {
		return err
	}
	if !role.valid() {
		return invalid("Collaborator", "permission", "invalid", string(role))
	}
	g := grant{role: role}
	if len(roleName) > 0 {
		g.name = roleName[0]
	}
	r.grants[u.id] = g
	return nil
}

// CreateApp makes a GitHub App.
func (s *Sim) CreateApp(o AppOptions) (App, error) {
	if !validName.MatchString(o.Slug) {
		return App{}, invalid("App", "slug", "invalid", o.Slug)
	}
	key, pemBytes, err := appKey(o.PrivateKeyPEM)
	if err != nil {
		return App{}, err
	}
	owner := cmp.Or(o.Owner, "github")
	if _, err := s.lookUser(owner); err != nil {
		if _, err := s.CreateOrg(owner); err != nil {
			return App{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	login := o.Slug + "[bot]"
	if s.users[strings.ToLower(login)] != nil {
		return App{}, invalid("App", "slug", "already_exists", o.Slug)
	}
	ownerUser, err := s.userByLogin(owner)
	if err != nil {
		return App{}, err
	}
	a := &app{
		id: s.nextID(), slug: o.Slug, name: o.Slug, owner: ownerUser, key: key, pem: pemBytes, events: append([]string{}, o.Events...), created: s.now(),
		permissions: map[string]string{"metadata": "read"},
	}
	a.clientID = fmt.Sprintf("Iv23%016x", a.id)
	for k, v := range o.Permissions {
		if level(v) == 0 {
			return App{}, invalid("App", "permissions", "invalid", k+": "+v)
		}
		a.permissions[k] = v
	}
	for _, e := range o.Events {
		if a.permissions[eventPermission(e)] == "" {
			return App{}, invalid("App", "default_events", "invalid", "Default events unsupported: "+e)
		}
	}
	a.bot = &user{id: s.nextID(), login: login, kind: "Bot", app: a}
	s.users[strings.ToLower(login)] = a.bot
	s.apps = append(s.apps, a)
	secret := o.WebhookSecret
	if secret == "" {
		secret = fmt.Sprintf("%x", randomBytes(20))
	}
	a.hook = s.newHook(a, o.HookURL, secret)
	return App{ID: a.id, Slug: a.slug, ClientID: a.clientID, BotLogin: login, BotID: a.bot.id, PrivateKeyPEM: slices.Clone(pemBytes), WebhookSecret: secret}, nil
}

func (s *Sim) appByID(id int64) (*app, error) {
	a, ok := find(s.apps, func(a *app) bool { return a.id == id })
	if !ok {
		return nil, &Error{Status: http.StatusNotFound, Message: "Not Found", Detail: fmt.Sprintf("app %d", id)}
	}
	return a, nil
}

// SetHook changes where an App's webhooks go; an empty secret keeps the old one.
func (s *Sim) SetHook(appID int64, url, secret string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.appByID(appID)
	if err != nil {
		return err
	}
	a.hook.url = url
	a.hook.secret = cmp.Or(secret, a.hook.secret)
	return nil
}

// Install installs an App on repositories ("owner/name") of one account, or
// adds them to the installation it has there.
func (s *Sim) Install(appID int64, repos ...string) (Installation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.appByID(appID)
	if err != nil {
		return Installation{}, err
	}
	var in *installation
	fresh := false
	for _, full := range repos {
		owner, name, _ := strings.Cut(full, "/")
		r, err := s.repoByName(owner, name)
		if err != nil {
			return Installation{}, err
		}
		if in == nil {
			var ok bool
			if in, ok = find(a.installs, func(in *installation) bool { return in.account == r.owner }); !ok {
				in, fresh = &installation{id: s.nextID(), app: a, account: r.owner, created: s.now()}, true
				a.installs = append(a.installs, in)
			}
		}
		if in.account != r.owner {
			return Installation{}, invalid("Installation", "repositories", "invalid", full+" belongs to another account")
		}
		if !slices.Contains(in.repos, r) {
			in.repos = append(slices.Clone(in.repos), r)
		}
	}
	if in == nil {
		return Installation{}, invalid("Installation", "repositories", "missing_field", "")
	}
	if fresh {
		s.emitInstallation(in, in.account)
	}
	return Installation{ID: in.id, NodeID: nodeID("INST", in.id)}, nil
}

// Token mints an installation token, for tests that speak to the APIs
// themselves. No permissions means all that the App has.
func (s *Sim) Token(installationID int64, permissions map[string]string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		for _, in := range a.installs {
			if in.id == installationID {
				return s.mint(in, nil, maps.Clone(permissions)).value, nil
			}
		}
	}
	return "", &Error{Status: http.StatusNotFound, Message: "Not Found", Detail: fmt.Sprintf("installation %d", installationID)}
}

// ExpireTokens ends the life of every installation token given so far.
func (s *Sim) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		t.expires = s.now()
	}
}

// as runs f with somebody, a repository and an issue looked up. What a bot may
// do is not asked: its App's permissions are for the APIs.
func (s *Sim) as(login, owner, name string, number int, least Role, f func(r *repo, i *issue, by author) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.userByLogin(login)
	if err != nil {
		return err
	}
	r, err := s.repoByName(owner, name)
	if err != nil {
		return err
	}
	if err := may(r, u, least); err != nil {
		return err
	}
	var i *issue
	if number != 0 {
		if r, i, err = s.issueByNumber(owner, name, number); err != nil {
			return err
		}
	}
	return f(r, i, author{user: u, via: u.app})
}

// CreateIssue opens an issue as a person.
func (s *Sim) CreateIssue(owner, name, login, title, body string, labels ...string) (Issue, error) {
	var out Issue
	err := s.as(login, owner, name, 0, RoleRead, func(r *repo, _ *issue, by author) error {
		if r.role(by.user).rank() < RoleTriage.rank() {
			labels = nil // GitHub drops them without a word
		}
		i, err := s.newIssue(r, by, title, body, labels)
		if err == nil {
			out = s.issueOut(r, i)
		}
		return err
	})
	return out, err
}

// AddLabel puts a label on an issue or pull request as a person, who needs the
// triage role; a label that is not there yet is made.
func (s *Sim) AddLabel(owner, name string, number int, login, label string) error {
	return s.as(login, owner, name, number, RoleTriage, func(r *repo, i *issue, by author) error {
		return s.addLabels(r, i, by, []string{label})
	})
}

// RemoveLabel takes a label off as a person.
func (s *Sim) RemoveLabel(owner, name string, number int, login, label string) error {
	return s.as(login, owner, name, number, RoleTriage, func(r *repo, i *issue, by author) error {
		return s.removeLabel(r, i, by, label)
	})
}

// Comment comments as a person.
func (s *Sim) Comment(owner, name string, number int, login, body string) (Comment, error) {
	var out Comment
	err := s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		c, err := s.newComment(r, i, by, body)
		if err == nil {
			out = commentOut(c)
		}
		return err
	})
	return out, err
}

// EditIssue changes title and body of an issue or pull request as its author
// or somebody with the write role; empty strings leave them.
func (s *Sim) EditIssue(owner, name string, number int, login, title, body string) error {
	return s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		if by.user != i.user {
			if err := may(r, by.user, RoleWrite); err != nil {
				return err
			}
		}
		var newTitle, newBody *string
		if title != "" {
			newTitle = &title
		}
		if body != "" {
			newBody = &body
		}
		return s.editIssue(r, i, by, newTitle, newBody)
	})
}

// CloseIssue closes an issue or pull request as its author or somebody with
// the triage role.
func (s *Sim) CloseIssue(owner, name string, number int, login string) error {
	return s.setStateAs(owner, name, number, login, true)
}

// ReopenIssue opens a closed issue or pull request again.
func (s *Sim) ReopenIssue(owner, name string, number int, login string) error {
	return s.setStateAs(owner, name, number, login, false)
}

func (s *Sim) setStateAs(owner, name string, number int, login string, closed bool) error {
	return s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		if by.user != i.user {
			if err := may(r, by.user, RoleTriage); err != nil {
				return err
			}
		}
		return s.setState(r, i, by, closed, "")
	})
}

// Push commits and pushes to a branch as a person, and returns the commit. It
// is not signed.
func (s *Sim) Push(owner, name, branch, login string, o PushOptions) (string, error) {
	var oid string
	err := s.as(login, owner, name, 0, RoleWrite, func(r *repo, _ *issue, by author) error {
		old, err := r.git.branch(s.life, branch)
		if errors.Is(err, errNoObject) {
			old = zeroOID
		} else if err != nil {
			return err
		}
		parent := old
		if old == zeroOID || o.Force {
			if parent, err = r.git.resolveCommit(s.life, cmp.Or(o.From, r.def)); errors.Is(err, errNoObject) {
				parent = zeroOID // the first commit of an empty repository
			} else if err != nil {
				return err
			}
		}
		now := s.now()
		c := commitObject{Author: by.user.person(now), Committer: by.user.person(now), Message: cmp.Or(o.Message, "Update") + "\n"}
		base := ""
		if parent != zeroOID {
			p, err := r.git.commit(s.life, parent)
			if err != nil {
				return err
			}
			base, c.Parents = p.Tree, []string{parent}
		}
		changes := []change{}
		var contents [][]byte
		for _, path := range sortedKeys(o.Files) {
			mode := modeFile
			if base != "" {
				if e, err := r.git.entry(s.life, base, path); err == nil && e.Type == "blob" {
					mode = e.Mode
				}
			}
			changes = append(changes, change{Mode: mode, Path: path})
			contents = append(contents, []byte(o.Files[path]))
		}
		oids, err := r.git.writeBlobs(s.life, contents...)
		if err != nil {
			return err
		}
		for i, blob := range oids {
			changes[i].OID = blob
		}
		for _, path := range o.Delete {
			changes = append(changes, change{Path: path})
		}
		if c.Tree, err = r.git.writeTree(s.life, base, changes); err != nil {
			return err
		}
		if oid, err = r.git.writeCommit(s.life, c); err != nil {
			return err
		}
		return s.moveRef(s.life, r, by, "refs/heads/"+branch, oid, old)
	})
	return oid, err
}

// DeleteBranch deletes a branch as a person.
func (s *Sim) DeleteBranch(owner, name, branch, login string) error {
	return s.as(login, owner, name, 0, RoleWrite, func(r *repo, _ *issue, by author) error {
		old, err := r.git.branch(s.life, branch)
		if err != nil {
			return err
		}
		return s.moveRef(s.life, r, by, "refs/heads/"+branch, zeroOID, old)
	})
}

// Review reviews a pull request as a person. State is APPROVED,
// CHANGES_REQUESTED or COMMENTED.
func (s *Sim) Review(owner, name string, number int, login, state, body string, lines ...ReviewLine) (Review, error) {
	var out Review
	err := s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		if i.pull == nil {
			return notFound()
		}
		rv, err := s.newReview(r, i, by, state, body, lines)
		if err == nil {
			out = reviewOut(i, rv)
		}
		return err
	})
	return out, err
}

// Merge merges a pull request as a person.
func (s *Sim) Merge(owner, name string, number int, login string) error {
	return s.as(login, owner, name, number, RoleWrite, func(r *repo, i *issue, by author) error {
		if i.pull == nil {
			return notFound()
		}
		return s.merge(s.life, r, i, by, "merge", "")
	})
}

// Issue reads an issue; for a pull request see PR.
func (s *Sim) Issue(owner, name string, number int) (Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, i, err := s.issueByNumber(owner, name, number)
	if err != nil {
		return Issue{}, err
	}
	return s.issueOut(r, i), nil
}

// Issues lists the issues of a repository, pull requests among them, by number.
func (s *Sim) Issues(owner, name string) ([]Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		return nil, err
	}
	list := []Issue{}
	for _, i := range r.issues {
		list = append(list, s.issueOut(r, i))
	}
	return list, nil
}

// PR reads a pull request.
func (s *Sim) PR(owner, name string, number int) (PR, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, i, err := s.issueByNumber(owner, name, number)
	if err != nil {
		return PR{}, err
	}
	if i.pull == nil {
		return PR{}, notFound()
	}
	return s.prOut(r, i)
}

// PRs lists the pull requests of a repository by number.
func (s *Sim) PRs(owner, name string) ([]PR, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		return nil, err
	}
	list := []PR{}
	for _, i := range r.issues {
		if i.pull == nil {
			continue
		}
		pr, err := s.prOut(r, i)
		if err != nil {
			return nil, err
		}
		list = append(list, pr)
	}
	return list, nil
}

// BranchCommits lists the commits of a branch newest first: those that the
// default branch does not have, or all where it is the default branch.
func (s *Sim) BranchCommits(owner, name, branch string) ([]Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		return nil, err
	}
	tip, err := r.git.branch(s.life, branch)
	if err != nil {
		return nil, err
	}
	var exclude []string
	if branch != r.def {
		def, err := r.git.branch(s.life, r.def)
		if err != nil {
			return nil, err
		}
		exclude = append(exclude, def)
	}
	commits, err := r.git.log(s.life, tip, 0, exclude...)
	if err != nil {
		return nil, err
	}
	list := []Commit{}
	for _, c := range commits {
		list = append(list, commitOut(r, c))
	}
	return list, nil
}

// Branches maps the branches of a repository to their tips.
func (s *Sim) Branches(owner, name string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		return nil, err
	}
	refs, err := r.git.refs(s.life, "refs/heads/")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, ref := range refs {
		out[strings.TrimPrefix(ref.Name, "refs/heads/")] = ref.OID
	}
	return out, nil
}

// File reads a file at a branch, tag or commit. The error wraps fs.ErrNotExist
// where there is none.
func (s *Sim) File(owner, name, ref, path string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		return nil, err
	}
	oid, err := r.git.resolveCommit(s.life, ref)
	if err != nil {
		return nil, notExist(err)
	}
	e, err := r.git.entry(s.life, oid, path)
	if err != nil {
		return nil, notExist(err)
	}
	_, _, data, err := r.git.object(s.life, e.OID, "blob")
	return data, notExist(err)
}

// Files lists every file at a branch, tag or commit with its mode ("100644").
func (s *Sim) Files(owner, name, ref string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		return nil, err
	}
	oid, err := r.git.resolveCommit(s.life, ref)
	if err != nil {
		return nil, notExist(err)
	}
	entries, err := r.git.tree(s.life, oid, true)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		if e.Type != "tree" {
			out[e.Path] = e.Mode
		}
	}
	return out, nil
}

// notExist lets callers ask with fs.ErrNotExist.
func notExist(err error) error {
	if errors.Is(err, errNoObject) {
		return fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return err
}

// CheckRuns lists the check runs of a repository in the order they were made.
func (s *Sim) CheckRuns(owner, name string) ([]CheckRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.repoByName(owner, name)
	if err != nil {
		return nil, err
	}
	list := []CheckRun{}
	for _, c := range r.checks {
		list = append(list, CheckRun{ID: c.id, Name: c.name, HeadOID: c.headOID, Status: c.status, Conclusion: c.conclusion, Title: c.title, Summary: c.summary, Text: c.text})
	}
	return list, nil
}

// Deliveries lists the webhooks of an App in the order they were caused.
func (s *Sim) Deliveries(appID int64) ([]Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.appByID(appID)
	if err != nil {
		return nil, err
	}
	list := []Delivery{}
	for _, d := range a.hook.log {
		list = append(list, *d)
	}
	return list, nil
}

// AllDeliveries lists the webhooks of every App.
func (s *Sim) AllDeliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Delivery{}
	for _, h := range s.hooks {
		for _, d := range h.log {
			list = append(list, *d)
		}
	}
	return list
}

// Redeliver sends a webhook again, with the GUID it had.
func (s *Sim) Redeliver(appID, deliveryID int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.appByID(appID)
	if err != nil {
		return err
	}
	_, err = s.redeliver(a.hook, deliveryID)
	return err
}

// CallCounts counts the calls by route ("GET /repos/{owner}/{repo}",
// "mutation createCommitOnBranch").
func (s *Sim) CallCounts() map[string]int {
	out := map[string]int{}
	for _, c := range s.Calls() {
		key := c.Route
		if c.Kind == "rest" {
			key = c.Method + " " + c.Route
		}
		out[key]++
	}
	return out
}

func (s *Sim) issueOut(r *repo, i *issue) Issue {
	prefix := "I"
	if i.pull != nil {
		prefix = "PR"
	}
	out := Issue{
		ID: i.id, NodeID: nodeID(prefix, i.id), Number: i.number, Title: i.title, Body: i.body, User: i.user.login, State: i.state(), URL: s.issuePage(r, i),
		Labels: []string{}, Comments: []Comment{}, Reactions: reactionsOut(i.reactions), IsPull: i.pull != nil,
	}
	for _, l := range i.labels {
		out.Labels = append(out.Labels, l.name)
	}
	for _, c := range i.comments {
		out.Comments = append(out.Comments, commentOut(c))
	}
	return out
}

func reactionsOut(rs []*reaction) []Reaction {
	list := []Reaction{}
	for _, r := range rs {
		list = append(list, Reaction{User: r.user.login, Content: r.content})
	}
	return list
}

func commentOut(c *comment) Comment {
	return Comment{ID: c.id, User: c.user.login, Body: c.body, Created: c.created, Updated: c.updated, Reactions: reactionsOut(c.reactions)}
}

func reviewOut(i *issue, rv *review) Review {
	out := Review{ID: rv.id, User: rv.user.login, State: rv.state, Body: rv.body, Lines: []ReviewLine{}}
	for _, t := range i.pull.threads {
		for _, c := range t.comments {
			if c.review == rv {
				out.Lines = append(out.Lines, ReviewLine{Path: t.path, Line: t.line, Body: c.body, User: c.user.login, Resolved: t.resolved != nil})
			}
		}
	}
	return out
}

func commitOut(r *repo, c *commitObject) Commit {
	return Commit{
		OID: c.OID, Tree: c.Tree, Parents: append([]string{}, c.Parents...), Subject: c.subject(), Body: c.body(), Verified: r.signed[c.OID] != nil,
		Author: c.Author.Name, AuthorEmail: c.Author.Email, Committed: c.Committer.When,
	}
}

func (s *Sim) prOut(r *repo, i *issue) (PR, error) {
	p := i.pull
	commits, err := s.pullCommits(s.life, r, p)
	if err != nil {
		return PR{}, err
	}
	out := PR{
		Issue: s.issueOut(r, i), Draft: p.draft, Merged: p.merged, Head: p.head, HeadOID: p.headOID, Base: p.base, BaseOID: p.baseOID,
		Commits: []Commit{}, Reviews: []Review{},
	}
	for _, c := range commits {
		out.Commits = append(out.Commits, commitOut(r, c))
	}
	for _, rv := range p.reviews {
		out.Reviews = append(out.Reviews, reviewOut(i, rv))
	}
	return out, nil
}

// Operation is one REST operation that is served.
type Operation struct{ Method, Template string }

// Operations lists what the REST API serves. The trimmed OpenAPI description is
// made from it.
func Operations() []Operation {
	var ops []Operation
	for _, r := range new(Sim).restRoutes() {
		ops = append(ops, Operation{r.method, r.template})
	}
	return ops
}

// Until waits for a condition, which is asked again after every call to the
// APIs and to git, and after every webhook. It returns the context's cause
// where that ends first.
func (s *Sim) Until(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("ghsim: wait: %w", context.Cause(ctx))
		case <-s.life.Done():
			return fmt.Errorf("ghsim: wait: %w", context.Cause(s.life))
		}
	}
}

// stir wakes those who wait for a change.
func (s *Sim) stir() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// record writes the call log.
func (s *Sim) record(c Call) {
	c.At = s.now()
	s.calls = append(s.calls, c)
	s.stir()
}
