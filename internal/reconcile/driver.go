package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

// driver is what this process has at hand for one run. It can be made anew at
// any time.
type driver struct {
	host *host.Host
	// gateway is nil without a model endpoint, or while another process serves
	// on the run's socket: what is served there is the same.
	gateway *gateway.Server
	engine  *loop.Engine
	watched map[loop.Handle]bool
	// looked: it is known whether the state is behind the branch.
	looked bool
	// repo is what the repository was called when this was made.
	repo string

	pauses
}

// pauses are when a run goes on. They hold whoever has driven it meanwhile.
type pauses struct {
	// pause is when to try again after a step that failed, and pauseFor how long that was
	// when it was decided: more is left only where the clock was put back since.
	pause    time.Time
	pauseFor time.Duration
	// failing is since when it is GitHub that fails its steps, zero where it does not.
	failing time.Time
	// refused is how often in a row GitHub has refused to have the run's end told.
	refused int
}

func (d *driver) close(ctx context.Context) error {
	d.host.Close()
	if d.gateway == nil {
		return nil
	}
	return d.gateway.Close(ctx)
}

// gatewayDir is where a run's gateway listens. A unix socket's path must stay
// below 108 bytes, so it is not in the run's own directory.
func gatewayDir(dataDir string, id run.ID) string {
	return filepath.Join(dataDir, "gw", shortName(id))
}

// CheckDataDir says with a *run.UserError that the path of a data directory is
// too long for the gateways' sockets below it.
func CheckDataDir(dir string) error { return gateway.CheckDir(gatewayDir(dir, "")) }

// driver gives what is needed to step the run. One is given also with an error,
// which says that the gateway could not be opened.
func (r *Reconciler) driver(row store.Run) (*driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.drivers[row.ID]
	switch {
	case !ok:
		d = r.newDriver(row)
	case d.repo != row.RepoOwner+"/"+row.RepoName: // it was renamed
		d.host.Close()
		old := d
		d = r.newDriver(row)
		d.gateway, d.pauses, d.looked = old.gateway, old.pauses, old.looked
	}
	r.drivers[row.ID] = d
	if r.cfg.Models == nil || d.gateway != nil {
		return d, nil
	}
	cfg := r.cfg.Models.Gateway
	cfg.Key = r.cfg.Models.Key(row.ID)
	handler, err := gateway.NewHandler(cfg)
	if err != nil {
		return d, fmt.Errorf("make the gateway of run %s: %w", row.ID, err)
	}
	server, err := gateway.Listen(gatewayDir(r.cfg.DataDir, row.ID), handler)
	if err != nil && !errors.Is(err, gateway.ErrInUse) {
		err = fmt.Errorf("open the gateway of run %s: %w", row.ID, err)
		if _, byPerson := errors.AsType[*run.UserError](err); byPerson {
			return d, err
		}
		return d, &loop.Delay{Why: "the way to the models cannot be opened", Err: err}
	}
	d.gateway = server
	return d, nil
}

// newDriver makes a driver that lacks its gateway.
func (r *Reconciler) newDriver(row store.Run) *driver {
	repo := r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
	var watch func(run.Event)
	if r.cfg.Watch != nil {
		watch = func(ev run.Event) {
			ev = ev.Of(row.ID, row.RepoOwner+"/"+row.RepoName, r.cfg.Now())
			ev.URL = fmt.Sprintf("%s/issues/%d", repo.HTMLURL(), row.IssueNumber)
			r.cfg.Watch(ev)
		}
	}
	hostCfg := host.Config{
		Dir:     filepath.Join(r.cfg.DataDir, "runs", string(row.ID)),
		Source:  r.Source(repo, row.RepoNode),
		Sandbox: r.cfg.Sandbox, Backend: r.cfg.Backend, Image: r.cfg.Image,
		Caches: host.Caches{Dir: filepath.Join(r.cfg.DataDir, host.CachesDir), Repo: shortName(row.RepoNode),
			MaxBytes: r.cfg.CacheBytes},
		OnOwnerDeath: cmp.Or(r.cfg.OnOwnerDeath, sandbox.KeepWithoutOwner), Gates: r.cfg.Gates,
		Resources: r.cfg.Resources, Credentials: r.cfg.Credentials,
		Prices: r.cfg.Prices, Limits: r.cfg.Limits, Emit: watch, Lacks: r.cfg.Lacks,
	}
	hostCfg.Transcripts, hostCfg.Mask = r.cfg.Transcripts, r.cfg.Mask
	hostCfg.MergedNotes = func(ctx context.Context) ([]string, error) { return publish.MergedNotes(ctx, repo) }
	if m := r.cfg.Models; m != nil {
		key := m.Key(row.ID)
		hostCfg.Gateway = &host.Gateway{
			Dir:   gateway.SocketDir(gatewayDir(r.cfg.DataDir, row.ID)),
			Token: func(start string) string { return gateway.Token(key, start) },
			Meter: m.Gateway.Meter, Watch: m.Gateway.Watch, Scopes: func() []spend.Scope { return m.Scopes(row, r.cfg.Now()) },
			NoModels: len(m.Gateway.Upstreams) == 0, Egress: m.Gateway.Egress,
			ProxyToken: func(start string) string { return gateway.ProxyToken(key, start) },
		}
	}
	var first func(ctx context.Context) (bool, error)
	if r.cfg.Welcome {
		first = func(ctx context.Context) (bool, error) { return r.cfg.Store.FirstRun(ctx, row.RepoNode, row.ID) }
	}
	h := host.New(hostCfg)
	return &driver{
		host: h, watched: map[loop.Handle]bool{}, repo: row.RepoOwner + "/" + row.RepoName,
		engine: &loop.Engine{
			Work: h, Runner: &placing{Runner: h, r: r, row: row},
			Beside: func(n int) (loop.Work, loop.Runner) {
				tree, runner := h.Lane(n)
				return tree, &placing{Runner: runner, r: r, row: row}
			},
			Publisher: &publish.Publisher{
				GitHub: repo, Issue: row.IssueNumber, Agent: r.cfg.AgentName, Mask: r.cfg.Mask,
				Label: r.comments.Label, Sandbox: r.describeSandbox(), Objects: h.Repo, Effects: r.comments.Effects,
				Now:   r.cfg.Now,
				ByJob: r.cfg.ByJob, LastWords: r.lastWords(row.ID), First: first,
				Permission: func(ctx context.Context, login string) (ghapp.Permission, error) {
					return r.authorizer.Permission(ctx, repo, row.RepoNode, login)
				},
			},
			Now: r.cfg.Now, Emit: h.Witness(watch),
		},
	}
}

// describeSandbox says to people how far the sandbox confines, "" where that is always
// the same.
func (r *Reconciler) describeSandbox() string {
	if r.cfg.Sandbox.About().Confinement == nil {
		return ""
	}
	return sandbox.Describe(r.cfg.Sandbox)
}

// Source is where the branches of a repository are found; node is its identity.
func (r *Reconciler) Source(repo *ghapp.Repo, node string) *host.MirrorSource {
	return &host.MirrorSource{
		Mirrors: r.mirrors, Name: repo.FullName(), Node: node,
		Remote: gitrepo.Remote{URL: repo.HTMLURL() + ".git", Auth: repo.GitAuth},
		Fallback: func(ctx context.Context) (host.ConfigFile, error) {
			return r.ownerConfig(ctx, repo.Sibling(config.OwnerRepo),
				config.OwnerPath(config.RepoPath))
		},
	}
}

func shortName[T ~string](id T) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// drop lets go of what this process holds for a run that has ended, if
// anything. What is on disk is left to whoever ended it.
func (r *Reconciler) drop(ctx context.Context, id run.ID) error {
	r.mu.Lock()
	d, ok := r.drivers[id]
	delete(r.drivers, id)
	r.mu.Unlock()
	if !ok {
		return nil
	}
	return d.close(context.WithoutCancel(ctx))
}

// retire lets go of a run that has ended. Its directory is removed: what is
// worth keeping is on the branch and in the store.
func (r *Reconciler) retire(ctx context.Context, id run.ID, d *driver) {
	r.mu.Lock()
	delete(r.drivers, id)
	r.mu.Unlock()
	err := d.close(context.WithoutCancel(ctx))
	if derr := errors.Join(d.host.Delete(context.WithoutCancel(ctx)),
		fstree.RemoveAll(gatewayDir(r.cfg.DataDir, id))); derr != nil {
		err = errors.Join(err, fmt.Errorf("remove the directories of run %s: %w", id, derr))
	}
	err = errors.Join(err, r.prune(context.WithoutCancel(ctx)))
	if err != nil {
		// The run itself has ended and is saved; ticking it again fixes nothing.
		zerolog.Ctx(ctx).Warn().Err(err).Msg("cleaning up after a run failed")
	}
}

// lastLines is how much of an agent's words a check run shows.
const lastLines = 60

// maxWords bounds them, in bytes; GitHub takes 65,535.
const maxWords = 16 << 10

// lastWords gives the end of what the run's last agent did, as Markdown.
func (r *Reconciler) lastWords(id run.ID) func() (string, error) {
	if r.cfg.Transcripts == nil {
		return nil
	}
	return func() (string, error) {
		tail, err := r.cfg.Transcripts.Tail(id, func(name string, emit func(agent.Activity)) agent.Parser {
			if name != r.cfg.AgentName {
				return nil
			}
			return r.cfg.Backend.NewParser(emit)
		}, lastLines)
		if errors.Is(err, fs.ErrNotExist) || err == nil && tail == "" {
			return "", nil
		}
		if err != nil { // the run does not wait for it
			return "The agents' output cannot be read at the moment. For all of it, run this on the server: `ralph-bot transcript " +
				string(id) + "`.", nil //nolint:nilerr // it is told
		}
		return "The end of the last agent's output. For all of it, run this on the server: `ralph-bot transcript " + string(id) +
			"`.\n\n" + publish.Block(r.cfg.Mask.Mask, tail, maxWords), nil
	}
}
