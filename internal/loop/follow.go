package loop

import (
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// follow makes the document hold the tasks of the plan as it is now. Where the
// plan was changed since the file was begun, its new tasks are added and what
// was done stays done; a plan in prose whose tasks are all done begins anew, and
// so does one that nothing was done of where a plan is what was asked for.
func follow(doc *progress.Doc, s *State) (*progress.Doc, error) {
	binding := progress.Binding{Key: s.Subject.Key, PlanSHA256: s.Plan.SHA256}
	old, _ := doc.Binding()
	tasks := doc.Tasks()
	done, total := progress.Counts(tasks)
	changed := old.PlanSHA256 != binding.PlanSHA256
	if changed && len(s.Plan.Tasks) == 0 && total > 0 && (done == total || done == 0 && s.Mode == run.ModePlan) {
		return progress.New(s.Subject.Name, binding), nil
	}
	if total > 0 && !changed {
		return doc, nil
	}
	added, err := addTasks(doc, s.Plan.Tasks)
	if err != nil {
		return nil, fmt.Errorf("write the plan's tasks: %w", err)
	}
	if added {
		if err := doc.SetStatus(progress.StatusInProgress); err != nil {
			return nil, fmt.Errorf("set the status: %w", err)
		}
	}
	if changed {
		if err := doc.Rebind(binding); err != nil {
			return nil, fmt.Errorf("bind the progress file to the plan: %w", err)
		}
	}
	return doc, nil
}

// addTasks adds the tasks of a plan that the document does not hold yet, by their
// titles, and says whether there were any. The document's own ids come first:
// where it has tasks, the new ones get others than they have in the plan, and so
// do the tasks they depend on.
func addTasks(doc *progress.Doc, planned []run.Task) (added bool, err error) {
	tasks := doc.Tasks()
	old := len(tasks)
	ids := map[string]string{} // in the document, by title
	for _, t := range tasks {
		ids[t.Title] = t.ID
	}
	titles := map[string]string{} // in the plan, by id
	for _, t := range planned {
		titles[t.ID] = t.Title
		if _, known := ids[t.Title]; known {
			continue
		}
		if old > 0 {
			t.ID = ""
		}
		tasks = append(tasks, t)
	}
	if len(tasks) == old {
		return false, nil
	}
	waits := slices.ContainsFunc(tasks[old:], func(t run.Task) bool { return len(t.DependsOn) > 0 })
	if err := doc.SetTasks(tasks); err != nil || old == 0 || !waits {
		return true, err
	}
	doc.AssignIDs()
	now := doc.Tasks()
	for _, t := range now {
		if ids[t.Title] == "" {
			ids[t.Title] = t.ID
		}
	}
	for i := old; i < len(tasks) && i < len(now); i++ {
		now[i].DependsOn = nil
		for _, id := range tasks[i].DependsOn {
			if own := ids[titles[id]]; own != "" {
				now[i].DependsOn = append(now[i].DependsOn, own)
			}
		}
	}
	return true, doc.SetTasks(now)
}

// rulePlan is the rule of a finding about the plan itself.
const rulePlan = "plan"

// tellPlan says what nobody can heed of the plan.
func (e *Engine) tellPlan(s *State) {
	for _, text := range s.Plan.Findings {
		e.tell(s, run.EventTrouble, gate.Finding{Rule: rulePlan, Text: text})
	}
}
