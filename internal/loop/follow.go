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

// addTasks adds the tasks of a plan that the document does not hold yet, by their titles, and says
// whether there were any. The document's own ids come first: where it has tasks, the new ones get
// others than they have in the plan, and so do the tasks they depend on.
func addTasks(doc *progress.Doc, planned []run.Task) (added bool, err error) {
	doc.AssignIDs()
	old := map[string]string{} // ids in the document, by title
	for _, t := range doc.Tasks() {
		old[t.Title] = t.ID
	}
	// A new task keeps an id that no task of the document can have until it gets its own: what the
	// plan calls T2 may be another task there.
	now := map[string]string{} // by the plan's id
	var fresh []run.Task
	for i, t := range planned {
		id, known := old[t.Title]
		if !known {
			id = fmt.Sprintf("new %d", i)
			fresh = append(fresh, t)
			fresh[len(fresh)-1].ID = id
		}
		now[t.ID] = id
	}
	if len(fresh) == 0 {
		return false, nil
	}
	if len(old) == 0 {
		return true, doc.SetTasks(planned)
	}
	for i := range fresh {
		var on []string
		for _, id := range fresh[i].DependsOn {
			if now[id] != "" {
				on = append(on, now[id])
			}
		}
		fresh[i].DependsOn = on
	}
	ids, err := doc.AddTasks(fresh...)
	if err != nil {
		return false, err
	}
	tasks := doc.Tasks()
	var marks []progress.Mark
	for i, id := range ids { // as it stands in the plan: it may be ticked there
		at := slices.IndexFunc(tasks, func(t run.Task) bool { return t.ID == id })
		marks = append(marks, progress.Mark{Task: at, Status: fresh[i].Status, Reason: fresh[i].Reason})
	}
	return true, doc.Mark(marks...)
}

// rulePlan is the rule of a finding about the plan itself.
const rulePlan = "plan"

// tellPlan says what nobody can heed of the plan.
func (e *Engine) tellPlan(s *State) {
	for _, text := range s.Plan.Findings {
		e.tell(s, run.EventTrouble, gate.Finding{Rule: rulePlan, Text: text})
	}
}
