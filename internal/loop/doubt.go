package loop

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// namedSources are what look like source files in the text of a task.
func namedSources(task run.Task) []string {
	var named []string
	for _, name := range namedPath().FindAllString(task.Title+"\n"+strings.Join(task.Accept, "\n"), maxNamed) {
		if gate.IsSource(name) && !slices.Contains(named, name) {
			named = append(named, name)
		}
	}
	return named
}

// doubt is why a proposal that passed its checks is not believed: it changes nothing
// near what the task names; "" where it is believed. It is a doubt: where a call
// claims again that the task is done, somebody looks. Saying nothing about it is no
// answer.
func (e *Engine) doubt(ctx context.Context, s *State, task run.Task) (why string, again bool, _ error) {
	changes, err := e.Work.Changes(ctx, s.HeadTree, s.Proposal.Tree)
	if err != nil {
		return "", false, fmt.Errorf("compare trees: %w", err)
	}
	code, _ := splitChanges(changes, path.Dir(s.ProgressPath))
	code = slices.DeleteFunc(code, func(c Change) bool { return slices.Contains(s.Proposal.Own, c.Path) })
	why, err = e.farFromTask(ctx, s, task, code)
	if err != nil || why == "" {
		return "", false, err
	}
	again = s.Challenged == task.ID && s.Draft.ClaimedDone
	s.Challenged = task.ID
	return why, again, nil
}

// farFromTask says of a proposal that it changes nothing in the folders of the files
// which the task names, "" where it does. Checks do not tell of work that was only
// pretended.
func (e *Engine) farFromTask(ctx context.Context, s *State, task run.Task, code []Change) (string, error) {
	if len(code) == 0 {
		return "", nil
	}
	named, err := e.existing(ctx, s.HeadTree, namedSources(task))
	if err != nil || len(named) == 0 {
		return "", err
	}
	var changed []string
	for _, c := range code {
		if slices.ContainsFunc(named, func(name string) bool { return path.Dir(name) == path.Dir(c.Path) }) {
			return "", nil
		}
		if len(changed) < maxSeenFiles {
			changed = append(changed, c.Path)
		}
	}
	return fmt.Sprintf("The last call changed %s, but nothing near what the task names: %s. Do what the task asks "+
		"for. If the task is done anyway, tick it again and the checks decide.",
		oneLine(strings.Join(changed, ", "), 300), strings.Join(named, ", ")), nil
}
