package publish

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// Errors that callers decide on.
var (
	// ErrNoChange: the tree is the one that is there.
	ErrNoChange = errors.New("publish: nothing to commit")
	// ErrForeignPR: the pull request was not opened by this App.
	ErrForeignPR = errors.New("publish: the pull request is not ours")
)

// Publisher publishes for one run on one issue. Its methods may be repeated at
// will; they must not run side by side for the same run, which has one driver.
type Publisher struct {
	GitHub  *ghapp.Repo
	Effects effects.Runner
	// Run is empty where something is said outside of any run.
	Run   run.ID
	Issue int
	// Label is the one that starts runs, as texts name it; "" stands for the usual
	// one. Those of state begin with it.
	Label string
	// Branch is where the work on the issue goes, BaseBranch what the pull request asks to be merged
	// into. Begin, Land and Show take them and Run from the state.
	Branch, BaseBranch string
	// ByJob: a job of a workflow publishes, and nobody would hear of a button that
	// is pressed: GitHub tells its own App, not the job.
	ByJob bool
	// Mask holds the secrets known to the process; nil masks by pattern only.
	Mask *redact.Masker
	// Agent is who works, and Sandbox describes to people what keeps it apart, "" where they need
	// not know.
	Agent, Sandbox string

	// Objects gives the host's own copy of the repository.
	Objects func(ctx context.Context) (*gitrepo.Repo, error)
	Now     func() time.Time
	// Permission says what somebody may do here, as of a minute ago at most.
	Permission func(ctx context.Context, login string) (ghapp.Permission, error)
	// LastWords are those of the run's last agent, for the check run; nil is none.
	LastWords func() (string, error)
	// First says whether this is the first run here, whose issue is where people
	// meet the bot; nil where nobody has to be told.
	First func(ctx context.Context) (bool, error)

	// shown is when showing how the run stands was last tried.
	shown time.Time
}

// branchRecord is how a branch is stored with its effect.
type branchRecord struct {
	// Base is that of the run's first commit.
	Base string `json:"base"`
}

// LandCommit makes c one commit on the issue's branch, which is created at c.Base if
// there is none yet, and returns it. Landing the same run, iteration and tree
// again returns the commit that is there.
//
// Beside the errors of ghapp (see ghapp.Classify for whether to come back):
// *loop.Rejection, ErrNoChange, loop.ErrBranchMoved and *loop.Halt, where the branch is gone or GitHub made
// another commit than was asked for. None of them goes away by repeating. ghapp.ErrStale while the branch is at c.Base means
// that GitHub's replicas lag: come back.
func (p *Publisher) LandCommit(ctx context.Context, c Commit) (loop.Landed, error) {
	ctx = ghapp.WithPurpose(ctx, "commit")
	from, err := p.makeBranch(ctx, c)
	if err != nil {
		return loop.Landed{}, err
	}
	first := from == c.Base // a replica of GitHub's may not show the branch yet
	return effects.Do(ctx, p.Effects, effects.Commit(p.Run, c.Iteration, c.Tree),
		map[string]string{"branch": p.Branch, "base": c.Base, "tree": c.Tree, "task": c.TaskID},
		func(ctx context.Context) (loop.Landed, bool, error) { return p.adopt(ctx, c, first) },
		func(ctx context.Context) (loop.Landed, error) { return p.commit(ctx, c, first) })
}

// makeBranch makes the branch once per run. One that was there before the run is taken as it
// is; one that a person deletes after the first commit is not made again. It gives the base of the
// run's first commit.
func (p *Publisher) makeBranch(ctx context.Context, c Commit) (from string, err error) {
	made, err := effects.Do(ctx, p.Effects, effects.Branch(p.Run, p.GitHub.FullName(), p.Branch),
		map[string]string{"base": c.Base},
		func(ctx context.Context) (branchRecord, bool, error) {
			_, err := p.GitHub.Branch(ctx, p.Branch)
			if errors.Is(err, ghapp.ErrNotFound) {
				return branchRecord{}, false, nil
			}
			return branchRecord{Base: c.Base}, err == nil, err
		},
		func(ctx context.Context) (branchRecord, error) {
			err := p.GitHub.CreateBranch(ctx, p.Branch, c.Base)
			if errors.Is(err, ghapp.ErrExists) {
				err = nil
			}
			if class, _ := ghapp.Classify(err); class == ghapp.Invalid {
				err = p.explainNoBranch(ctx, err)
			}
			return branchRecord{Base: c.Base}, err
		})
	return made.Base, err
}

// commit makes the commit, and finds out what became of it where GitHub's
// answer does not say.
func (p *Publisher) commit(ctx context.Context, c Commit, first bool) (loop.Landed, error) {
	in, err := p.input(ctx, c)
	if err != nil {
		return loop.Landed{}, err
	}
	made, err := p.send(ctx, in)
	if errors.Is(err, ghapp.ErrStale) || errors.Is(err, ghapp.ErrNotFound) {
		// Either somebody moved the branch, or a replica has not heard of our own last
		// commit or of the new branch yet; in the second case trying again helps.
		if rec, ok, lookErr := p.adopt(ctx, c, first); lookErr != nil || ok {
			return rec, lookErr
		}
		made, err = p.send(ctx, in)
	}
	if err != nil {
		if errors.Is(err, ghapp.ErrUnverified) || errors.Is(err, ghapp.ErrTreeMismatch) {
			return loop.Landed{}, untrusted(made.OID, "the branch was not moved", err)
		}
		// The commit may have landed all the same, or the branch be gone.
		switch class, _ := ghapp.Classify(err); class {
		case ghapp.Stale, ghapp.Transient, ghapp.NotFound:
			rec, ok, lookErr := p.adopt(ctx, c, first)
			if _, halt := errors.AsType[*loop.Halt](lookErr); ok || halt || errors.Is(lookErr, loop.ErrBranchMoved) {
				return rec, lookErr
			}
		}
		return loop.Landed{}, err
	}
	return p.check(c, made)
}

func (p *Publisher) send(ctx context.Context, in request) (ghapp.Commit, error) {
	if !in.gitData {
		return p.GitHub.CreateCommit(ctx, in.CommitInput)
	}
	return p.GitHub.CreateCommitGitData(ctx, in.GitDataInput)
}

const onBranch = "the branch now points at it: check it before you build on it"

// untrusted stops for a commit of GitHub's that is not what was asked for: a person has to look.
func untrusted(oid, where string, why error) error {
	return &loop.Halt{Reason: run.EndAwaitingPerson,
		Detail: fmt.Sprintf("GitHub made a commit that cannot be trusted, and %s: commit %s: %v", where, oid, why)}
}

// check holds a commit that is on the branch against what was asked for.
func (p *Publisher) check(c Commit, made ghapp.Commit) (loop.Landed, error) {
	switch {
	case made.TreeOID != c.Tree:
		return loop.Landed{}, untrusted(made.OID, onBranch,
			fmt.Errorf("tree is %s, want %s: %w", made.TreeOID, c.Tree, ghapp.ErrTreeMismatch))
	case !made.Verified:
		return loop.Landed{}, untrusted(made.OID, onBranch, fmt.Errorf("%w (%s)", ghapp.ErrUnverified, made.VerifyReason))
	}
	headline, _ := split(p.Mask, c)
	return loop.Landed{OID: made.OID, Tree: made.TreeOID, Subject: headline, TaskID: c.TaskID, Verified: new(true)}, nil
}

// adopt looks whether the head of the branch is the commit that c asks for: on
// top of c.Base, by the App, with the trailers of c. A branch that is still at
// c.Base holds none, nor does one that is not there before the run's first commit; any other head is
// loop.ErrBranchMoved.
func (p *Publisher) adopt(ctx context.Context, c Commit, first bool) (loop.Landed, bool, error) {
	branch := p.Branch
	ref, err := p.GitHub.Branch(ctx, branch)
	if errors.Is(err, ghapp.ErrNotFound) {
		if first {
			return loop.Landed{}, false, nil
		}
		return loop.Landed{}, false, &loop.Halt{Reason: run.EndCancelled, Detail: fmt.Sprintf("the branch %s was deleted", branch)}
	}
	if err != nil {
		return loop.Landed{}, false, err
	}
	if ref.OID == c.Base {
		return loop.Landed{}, false, nil
	}
	head, err := p.GitHub.Commit(ctx, ref.OID)
	if err != nil {
		return loop.Landed{}, false, err
	}
	bot, err := p.GitHub.BotID(ctx)
	if err != nil {
		return loop.Landed{}, false, err
	}
	if head.Author.ID != bot || !slices.Equal(head.Parents, []string{c.Base}) || !sameCommit(p.Mask, head.Message, c) {
		return loop.Landed{}, false, fmt.Errorf("branch %s is at %s, expected it at %s: %w", branch, ref.OID, c.Base,
			loop.ErrBranchMoved)
	}
	rec, err := p.check(c, head)
	return rec, err == nil, err
}

// request is a commit as it is sent: by the mutation, or through git objects.
type request struct {
	ghapp.GitDataInput

	gitData bool
}

// input reads what changed into a request, after policy has had its say.
func (p *Publisher) input(ctx context.Context, c Commit) (in request, err error) {
	objects, err := p.Objects(ctx)
	if err != nil {
		return in, err
	}
	diff, err := objects.Diff(ctx, gitrepo.OID(c.BaseTree), gitrepo.OID(c.Tree))
	if err != nil {
		return in, fmt.Errorf("compare trees: %w", err)
	}
	changes := make([]loop.Change, 0, len(diff))
	for _, change := range diff {
		changes = append(changes, loop.Change{Path: change.Path, OldMode: change.OldMode, NewMode: change.NewMode})
	}
	if len(changes) == 0 {
		return in, ErrNoChange
	}
	refused := screen(changes, c.Protected, c.Own)
	in.GitDataInput = ghapp.GitDataInput{BaseTree: c.BaseTree, Tree: c.Tree}
	in.Branch, in.ExpectedHead = p.Branch, c.Base
	in.Headline, in.Body = split(p.Mask, c)
	total := 0
	if len(refused) > 0 {
		return in, &loop.Rejection{Refusals: refused}
	}
	for _, change := range diff {
		if change.NewMode == 0 {
			in.Deletions = append(in.Deletions, change.Path)
			continue
		}
		content, err := objects.Blob(ctx, change.NewOID, MaxFile)
		if errors.Is(err, gitrepo.ErrTooLarge) {
			refused = append(refused, loop.Refusal{Path: change.Path, Reason: fmt.Sprintf("file is larger than %d MiB", MaxFile>>20)})
			continue
		}
		if err != nil {
			return in, fmt.Errorf("read changed file: %w", err)
		}
		if total += base64.StdEncoding.EncodedLen(len(content)); total > MaxRequest {
			refused = append(refused, loop.Refusal{
				Path:   change.Path,
				Reason: fmt.Sprintf("the change is larger than the %d MiB of content that one commit can carry", MaxRequest/4*3>>20),
			})
			continue
		}
		in.gitData = in.gitData || needsGitData(change)
		in.Additions = append(in.Additions, ghapp.FileAddition{
			Path: change.Path, Content: content, Executable: change.NewMode == gitrepo.ModeExecutable,
		})
	}
	if len(refused) > 0 {
		return in, &loop.Rejection{Refusals: refused}
	}
	return in, nil
}

// needsGitData: createCommitOnBranch makes every new file plain and keeps the
// mode of every old one.
func needsGitData(c gitrepo.Change) bool {
	if c.OldMode == 0 {
		return c.NewMode == gitrepo.ModeExecutable
	}
	return c.NewMode != c.OldMode
}
