package ghsim

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

var validName = strs.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// validRepoName is for repositories, which may be called ".github".
var validRepoName = strs.Lazy(`^\.?[A-Za-z0-9][A-Za-z0-9._-]{0,98}$`)

// CreateUser makes a person.
func (s *Sim) CreateUser(login string) (User, error) { return s.createAccount(login, "User") }

// createAccount makes a person, or an organization, which owns repositories and Apps and does nothing itself.
func (s *Sim) createAccount(login, kind string) (User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[strings.ToLower(login)] != nil {
		return User{}, invalid("User", "login", "already_exists", "")
	}
	u, err := s.ensureAccount(login, kind)
	if err != nil {
		return User{}, err
	}
	return User{ID: u.id, Login: u.login, Token: u.token}, nil
}

// ensureAccount finds an account, or makes one of a kind.
func (s *Sim) ensureAccount(login, kind string) (*user, error) {
	if u := s.users[strings.ToLower(login)]; u != nil {
		return u, nil
	}
	if !validName().MatchString(login) {
		return nil, invalid("User", "login", "invalid", "")
	}
	u := &user{id: s.nextID(), login: login, kind: kind, token: fmt.Sprintf("ghp_%x", randomBytes(18))}
	s.users[strings.ToLower(login)] = u
	return u, nil
}

// CreateRepo makes a repository; the owner is made where there is none.
func (s *Sim) CreateRepo(owner, name string, o RepoOptions) (Repo, error) {
	if !validName().MatchString(owner) || !validRepoName().MatchString(name) || strings.HasSuffix(name, ".git") {
		return Repo{}, invalid("Repository", "name", "invalid", owner+"/"+name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.ensureAccount(owner, "User")
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
	r := &repo{
		id: s.nextID(), owner: u, name: name, private: o.Private, def: def,
		grants: map[int64]grant{}, git: git, signed: map[string]*user{}, created: s.now(),
	}
	s.repos[strings.ToLower(owner+"/"+name)] = r
	if err := s.seed(r, o); err != nil {
		return Repo{}, err
	}
	return s.repoOut(r), nil
}

// seed makes the first commit of a repository.
func (s *Sim) seed(r *repo, o RepoOptions) error {
	if len(o.Files) == 0 {
		return nil
	}
	for path := range o.Files {
		if !validPath(path) {
			return invalid("Repository", "files", "invalid", path)
		}
	}
	changes, err := r.git.additions(o.Files, func(path string) string {
		if slices.Contains(o.Executables, path) {
			return modeExec
		}
		return modeFile
	})
	if err != nil {
		return err
	}
	tree, err := r.git.writeTree("", changes)
	if err != nil {
		return err
	}
	who := r.owner.person(s.now())
	oid, err := r.git.writeCommit(commitObject{
		Tree: tree, Author: who, Committer: who, Message: "Initial commit\n",
	})
	if err != nil {
		return err
	}
	return s.moveRef(r, author{user: r.owner}, "refs/heads/"+r.def, oid, zeroOID)
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
	_, err := inRepo(s, owner, name, func(r *repo) (none struct{}, err error) {
		u, err := s.userByLogin(login)
		if err != nil {
			return none, err
		}
		if !role.valid() {
			return none, invalid("Collaborator", "permission", "invalid", string(role))
		}
		r.grants[u.id] = grant{role: role, name: strings.Join(roleName, "")}
		return none, nil
	})
	return err
}

// SetRules says which kinds of rules ("required_signatures") the API tells of for every branch of a repository. They
// are not kept.
func (s *Sim) SetRules(owner, name string, kinds ...string) error {
	_, err := inRepo(s, owner, name, func(r *repo) (none struct{}, _ error) {
		r.rules = kinds
		return none, nil
	})
	return err
}

// actionsSlug is the App whose tokens jobs in GitHub Actions have.
const actionsSlug = "github-actions"

// LetActionsOpenPulls has GitHub Actions create and approve pull requests in a repository, as its settings say it: a
// token of an App with the slug "github-actions" may not, as long as nobody has ticked that.
func (s *Sim) LetActionsOpenPulls(owner, name string, may bool) error {
	_, err := inRepo(s, owner, name, func(r *repo) (none struct{}, _ error) {
		r.actionsPulls = may
		return none, nil
	})
	return err
}

// CreateApp makes a GitHub App.
func (s *Sim) CreateApp(o AppOptions) (App, error) {
	if !validName().MatchString(o.Slug) {
		return App{}, invalid("App", "slug", "invalid", o.Slug)
	}
	key, pemBytes, err := appKey(o.PrivateKeyPEM)
	if err != nil {
		return App{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	login := o.Slug + "[bot]"
	if s.users[strings.ToLower(login)] != nil {
		return App{}, invalid("App", "slug", "already_exists", o.Slug)
	}
	owner, err := s.ensureAccount(cmp.Or(o.Owner, "github"), "Organization")
	if err != nil {
		return App{}, err
	}
	a := &app{
		id: s.nextID(), slug: o.Slug, name: o.Slug, owner: owner, key: key, pem: pemBytes,
		events: append([]string{}, o.Events...), created: s.now(),
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
	return App{
		ID: a.id, Slug: a.slug, ClientID: a.clientID, BotLogin: login, BotID: a.bot.id, PrivateKeyPEM: slices.Clone(pemBytes),
		WebhookSecret: secret,
	}, nil
}

func (s *Sim) appByID(id int64) (*app, error) {
	a, ok := find(s.apps, func(a *app) bool { return a.id == id })
	if !ok {
		return nil, &Error{Status: http.StatusNotFound, Message: "Not Found", Detail: fmt.Sprintf("app %d", id)}
	}
	return a, nil
}

// SetKey replaces the private key of an App, as its owner does on its settings page. What
// another one has signed is refused from then on.
func (s *Sim) SetKey(appID int64, text []byte) error {
	key, _, err := appKey(text)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.appByID(appID)
	if err != nil {
		return err
	}
	a.key = key
	return nil
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
	return "", &Error{
		Status: http.StatusNotFound, Message: "Not Found", Detail: fmt.Sprintf("installation %d", installationID),
	}
}

// ExpireTokens ends the life of every installation token given so far.
func (s *Sim) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		t.expires = s.now()
	}
}
