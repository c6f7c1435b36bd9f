package ghsim

import (
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
	Private bool `json:"private"`
	// DefaultBranch is "main" where it is empty.
	DefaultBranch string `json:"default_branch"`
	// Files are the contents of the first commit by path. Without any the repository is empty.
	Files map[string]string `json:"files"`
	// Executables are the paths in Files that get mode 100755.
	Executables []string `json:"executables"`
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
}

// PR is a pull request.
type PR struct {
	Issue

	Draft   bool     `json:"draft"`
	Merged  bool     `json:"merged"`
	Head    string   `json:"head"`
	HeadOID string   `json:"head_oid"`
	Base    string   `json:"base"`
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
	Lines     []ReviewLine `json:"lines"`
	Reactions []Reaction   `json:"reactions"`
}

// ReviewLine is a review comment on lines of the new side of a file.
type ReviewLine struct {
	// ID is the comment's, Thread the node id of its conversation.
	ID     int64  `json:"id"`
	Thread string `json:"thread"`
	Path   string `json:"path"`
	// Line is the last of them; StartLine the first, 0 where there is only one.
	Line      int `json:"line"`
	StartLine int `json:"start_line"`
	// Commit is what the reviewer looked at, "" for the head.
	Commit   string `json:"commit"`
	Body     string `json:"body"`
	User     string `json:"user"`
	Resolved bool   `json:"resolved"`
	Outdated bool   `json:"outdated"`
	// Reactions are those to the comment.
	Reactions []Reaction `json:"reactions"`
}

// Commit is a commit on a branch.
type Commit struct {
	OID     string   `json:"oid"`
	Tree    string   `json:"tree"`
	Parents []string `json:"parents"`
	Subject string   `json:"subject"`
	Body    string   `json:"body"`
	// Verified says that GitHub made and signed it.
	Verified bool   `json:"verified"`
	Author   string `json:"author"`
}

// CheckRun is a check run on a commit.
type CheckRun struct {
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	HeadOID    string `json:"head_oid"`
	ExternalID string `json:"external_id"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Title      string `json:"title"`
	Summary    string `json:"summary"`
	Text       string `json:"text"`
	// Buttons are the identifiers of its actions.
	Buttons []string `json:"buttons"`
	// Annotations are in the order they came.
	Annotations []Annotation `json:"annotations"`
}

// Annotation is what a check run says of lines of a file.
type Annotation struct {
	Path      string `json:"path"`
	StartLine int    `json:"start_line"`
	EndLine   int    `json:"end_line"`
	// StartColumn and EndColumn are 0 where none are given.
	StartColumn int `json:"start_column"`
	EndColumn   int `json:"end_column"`
	// Level is "notice", "warning" or "failure".
	Level   string `json:"annotation_level"`
	Message string `json:"message"`
	Title   string `json:"title"`
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
