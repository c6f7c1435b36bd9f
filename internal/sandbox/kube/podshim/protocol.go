package podshim

import (
	"time"

	"github.com/org/ralph-action/internal/sandbox/shim"
)

// What the shim answers, by path. All bodies are whole or refused.
const (
	// PathState gives a State.
	PathState = "/1/state"
	// PathTree takes (PUT) and gives (GET, once the command has ended) a directory as
	// package parcel packs it, ?dir= its path in the pod. What is given is only what
	// has changed since the command began.
	PathTree = "/1/tree"
	// PathFile takes the content of a file that is there, ?path=, with ?mode=.
	PathFile = "/1/file"
	// PathStart takes a Start, and starts the command. A second one is a conflict.
	PathStart = "/1/start"
	// PathOutput gives an Output as one line of JSON, and then that many bytes of what
	// was written to stdout, from ?stdout= on.
	PathOutput = "/1/output"
	// PathEnd answers when the command has ended.
	PathEnd = "/1/end"
	// PathStop asks the command to end, and with ?kill=1 ends it.
	PathStop = "/1/stop"
	// PathOwner is open for as long as the owner lives.
	PathOwner = "/1/owner"
	// PathGateway answers when the command has connected to the gateway; the bodies are
	// the two directions of that connection.
	PathGateway = "/1/gateway"
)

// Where things are in a pod.
const (
	// Program is the bot's program.
	Program = "/opt/ralph-shim/bot"
	// WorkDir is the work tree, CacheDir the build caches and HomeDir the home.
	WorkDir  = "/workspace"
	CacheDir = "/run/cache"
	HomeDir  = "/home/agent"
	// RunDir is the shim's own, and empty while the command runs.
	RunDir = "/run/ralph"
	// PromptFile is where PathFile puts the command's standard input.
	PromptFile = RunDir + "/prompt"
)

// Names in the network of the pod.
const (
	socket        = "@ralph-shim"
	gatewaySocket = "@ralph-gateway"
)

// State is where the shim stands.
type State struct {
	Begun bool `json:"begun"`
	Ended bool `json:"ended"`
}

// Start is the command to start. Of its configuration the shim fills in the files, and
// sets the environment: the image's without what the cluster added, and Env.
type Start struct {
	Config shim.Config       `json:"config"`
	Env    map[string]string `json:"env"`
	Prompt bool              `json:"prompt,omitempty"`
	// Gateway says that loopback leads to the bot's gateway.
	Gateway bool `json:"gateway,omitempty"`
	// Trees are the directories that are given back.
	Trees []string `json:"trees"`
}

// Output is what there is to see of the command.
type Output struct {
	// Record is the shim's record, whole.
	Record []byte `json:"record"`
	// Stderr is the end of stderr, nil where ?stderr= is its CRC-32.
	Stderr []byte `json:"stderr"`
	// Stdout is how many bytes of stdout follow.
	Stdout int64 `json:"stdout"`
}

// ownerPatience is how long an owner may be away: whatever its connection goes through
// may be restarted.
const ownerPatience = 10 * time.Second
