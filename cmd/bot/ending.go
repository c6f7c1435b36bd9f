package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// ending is what a person may do once a run has ended, in the names of their
// repository.
type ending struct {
	// from is what the branch is compared with: the branch or the commit that the work
	// began from. base is the branch that a pull request is opened against, "" for none.
	from, base string
	// remote is the one to push to, "" for none; pushed: the run has done that.
	remote string
	pushed bool
	// again is the command that ran; build is the one that works the plan that it wrote.
	again, build string
	// refused are the refs of the work that was not committed.
	refused []string
}

// newEnding looks at the repository around dir. What it cannot tell is left out.
func newEnding(ctx context.Context, git *gitrepo.Git, dir string, s loop.State) ending {
	e := ending{again: commandLine(os.Args), build: builds(os.Args, s), from: shortOID(s.Base)}
	repo, err := git.OpenLocal(ctx, dir)
	if err != nil {
		return e
	}
	if bases, err := inline.BasesOf(ctx, repo, s.Branch); err == nil {
		e.base = bases.PullRequest
		e.from = cmp.Or(bases.Work, e.from)
	}
	e.refused, _ = inline.Refused(ctx, repo, s.Run) // without them nothing is named
	if remotes, err := repo.Remotes(ctx); err == nil {
		e.remote = remotes[0]
	}
	if remote, err := repo.PushRemote(ctx, s.Branch); err == nil {
		e.remote = remote
	}
	return e
}

func shortOID(oid string) string { return oid[:min(len(oid), 12)] }

// commandLine is a command as a shell takes it.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = quoted(arg)
		if i == 0 {
			words[i] = quoted(filepath.Base(arg))
		}
	}
	return strings.Join(words, " ")
}

// builds is the command that works the plan which the command of these args wrote.
func builds(args []string, s loop.State) string {
	for i := len(args) - 1; i > 1; i-- {
		if args[i] == string(run.ModePlan) && !strings.HasPrefix(args[i-1], "-") {
			args = slices.Clone(args)
			args[i] = string(run.ModeBuild)
			return commandLine(args)
		}
	}
	return again(s) + " build"
}

// summary is the last a person reads on stdout.
func (e ending) summary(s loop.State) string {
	var b strings.Builder
	n := landed(s)
	switch {
	case len(s.Questions) > 0:
		return fmt.Sprintf("%s leaves something open, the planner asks:\n- %s\n"+
			"Answer these questions in the plan and run it again, or run it as it is with --ask=never.\n",
			s.Subject.PlanFile, strings.Join(s.Questions, "\n- "))
	case s.End == run.EndPlanned:
		b.WriteString(taskList(s))
	case n > 0 && s.Closing != nil:
		fmt.Fprintf(&b, "%s on %s.\n", strs.Count(n, "new commit"), s.Branch)
	case n > 0:
		fmt.Fprintf(&b, "%s on %s; the plan and the learnings are in %s.\n", strs.Count(n, "new commit"), s.Branch,
			s.ProgressPath)
	case s.NoCommit && len(s.Commits) > 0:
		b.WriteString("The work is uncommitted in your checkout.\n")
	case s.End.Complete():
		again := "run it with --restart"
		if done, total := progress.Counts(s.Plan.Tasks); 0 < total && done == total {
			again = "open their boxes in the plan"
		}
		b.WriteString("All tasks were already done. To do them again, " + again + ".\n")
	default:
		b.WriteString("Nothing was committed.\n")
	}
	b.WriteString(listed(e.next(s)))
	return b.String()
}

// protectedPaths lists the changes of agents that were put back.
func protectedPaths(s loop.State) string {
	var b strings.Builder
	for _, f := range s.Findings {
		if f.Rule == loop.RuleProtected || f.Rule == loop.RuleUnstored {
			fmt.Fprintf(&b, "- %s\n", run.PrintableLine(f.Text))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "Changes of agents that were put back:\n" + b.String()
}

// taskList lists the tasks of a plan that was written.
func taskList(s loop.State) string {
	var b strings.Builder
	if doc, err := progress.Parse([]byte(s.Progress)); err == nil {
		for _, t := range doc.Tasks() {
			fmt.Fprintf(&b, "  %s\n", run.PrintableLine(strings.TrimSpace(t.ID+" "+t.Title)))
		}
	}
	where := "your checkout"
	if !s.NoCommit {
		where = fmt.Sprintf("%s (git switch %s)", s.Branch, quoted(s.Branch))
	}
	fmt.Fprintf(&b, "The plan is in %s on %s. Edit and commit it there if you like, then run it.\n", s.ProgressPath, where)
	return b.String()
}

// nextStep is something a person may do next, and the command for it.
type nextStep struct{ what, command string }

// listed shows them with the commands below one another.
func listed(all []nextStep) string {
	var b strings.Builder
	wide := 0
	for _, s := range all {
		wide = max(wide, len(s.what))
	}
	for _, s := range all {
		fmt.Fprintf(&b, "  %-*s  %s\n", wide+1, s.what+":", s.command)
	}
	return b.String()
}

// next are the steps that make sense after the run.
func (e ending) next(s loop.State) []nextStep {
	var all []nextStep
	if landed(s) > 0 && e.from != "" {
		all = append(all, nextStep{"See the work", fmt.Sprintf("git diff %s...%s", quoted(e.from), quoted(s.Branch))})
	}
	switch {
	case s.End == run.EndPlanned:
		return append(all, nextStep{"Run it", e.build})
	case s.End.Complete():
		return append(all, e.publish(s)...)
	}
	for i, ref := range e.refused {
		if i == maxRefused {
			all = append(all, nextStep{"See all of the refused work", "git for-each-ref " + quoted(path.Dir(ref))})
			break
		}
		all = append(all, nextStep{"See the refused work at " + path.Base(ref), "git show " + quoted(ref)})
	}
	if len(e.refused) == 1 {
		all = append(all, nextStep{"Put it into your checkout", "git cherry-pick -n " + quoted(e.refused[0])})
	}
	if s.End == run.EndBlocked || s.End == run.EndAwaitingPerson && len(s.Needs) > 0 {
		return append(all, nextStep{"Have blocked tasks tried again", e.again})
	}
	if s.NoCommit && len(s.Commits) > 0 {
		return append(all, nextStep{"Commit the work, and go on", "git commit -a && " + e.again})
	}
	return append(all, nextStep{"Go on", e.again})
}

// maxRefused is how many tasks' refused work is named on its own.
const maxRefused = 3

// publish are the steps from a finished branch to a pull request.
func (e ending) publish(s loop.State) []nextStep {
	if landed(s) == 0 {
		return nil
	}
	remote := e.remote
	var all []nextStep
	if remote == "" {
		remote = "origin"
		all = append(all, nextStep{"Add a remote first", "git remote add origin URL"})
	}
	if !e.pushed {
		all = append(all, nextStep{"Push it", fmt.Sprintf("git push -u %s %s", quoted(remote), quoted(s.Branch))})
	}
	if e.base != "" {
		all = append(all, nextStep{
			"Open a pull request", fmt.Sprintf("gh pr create --base %s --head %s --title %s --fill", quoted(e.base), quoted(s.Branch),
				quoted(strs.OneLine(run.PrintableLine(s.Subject.Name)))),
		})
	}
	return all
}

// pushedTo says where the branch was pushed, "" where it was not.
func pushedTo(branch, remote string) string {
	if remote == "" {
		return ""
	}
	return fmt.Sprintf("Pushed %s to %s.\n", branch, remote)
}
