package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// maxFeedback bounds what is kept of what people said: the oldest that nothing
// more is done about goes first.
const maxFeedback = 300

// Standing is where something that people said stands.
type Standing string

// The standings.
const (
	// FeedbackTask: it became a task.
	FeedbackTask Standing = "task"
	// FeedbackDropped: nothing is done about it, see Feedback.Why.
	FeedbackDropped Standing = "dropped"
	// FeedbackAsked: people have to decide first, see Feedback.Why.
	FeedbackAsked Standing = "asked"
)

// Feedback is what people, or their checks, said of the work once it could be
// seen, and what became of it.
type Feedback struct {
	// Key is the same for all that is said in one conversation.
	Key string
	// Comment is the id of the comment that opened the conversation, 0 where this
	// is none.
	Comment int64
	// Last is the newest comment of the conversation that was taken in, 0 where this
	// is none.
	Last int64 `json:",omitempty"`
	// Where are the lines, "" for the whole, and By is the login behind it.
	Where, By string
	Standing  Standing
	Why       string
	// TaskID is the task it became, and Commit the one that did it, "" for none yet.
	TaskID, Commit string
	// Did says what that commit changed.
	Did string
	// Told: people were told of that commit in an earlier run of which this door
	// knows nothing; nothing is said again.
	Told bool
	// Rounds is how often it has become a task.
	Rounds int
	// Quote is the whole of what was said, cleaned; it is gone once it is done.
	Quote string
}

// Heard is something that people said, as a run takes it in. A zero Task is none.
type Heard struct {
	Feedback

	Task   run.Task
	Person Person
	// As is the key of the earlier feedback that the same task covers, if any.
	As string
}

// Receptive says whether the run can take in what people said, and would work it.
func (s *State) Receptive() bool {
	if s.Progress == "" || s.Phase.Terminal() || !s.betweenTasks() {
		return false
	}
	return s.Stage != stageEnd || s.resumes()
}

// TakeFeedback takes in what people said of the work, each thing as its own task where it
// is one. ErrNotNow is returned while something is at work that the tasks are
// compared with. A run that was about to end for want of work goes on.
func (e *Engine) TakeFeedback(ctx context.Context, s State, list []Heard) (State, error) {
	if !s.Receptive() {
		return s, ErrNotNow
	}
	next := s.clone()
	err := next.load()
	if err == nil {
		err = e.addFeedback(ctx, &next, list)
	}
	if err != nil {
		return s, err
	}
	return next, nil
}

func (e *Engine) addFeedback(ctx context.Context, s *State, list []Heard) (err error) {
	doc := s.doc()
	var added []string
	for _, h := range list {
		f := h.Feedback
		if was, ok := s.feedback(f.Key); ok {
			f.Rounds = was.Rounds
		}
		switch {
		case h.As != "":
			same, _ := s.feedback(h.As)
			f.TaskID = same.TaskID
		case h.Task.Title != "":
			if f.TaskID, err = doc.AddTask(h.Task); err != nil {
				return fmt.Errorf("add a task: %w", err)
			}
			if h.Person.ID != 0 {
				s.record(f.TaskID).Asked = &h.Person
			}
			added = append(added, f.TaskID)
		}
		if f.TaskID != "" {
			f.Rounds++
		}
		s.keepFeedback(f)
	}
	if len(added) == 0 {
		return nil
	}
	if err := s.amend(doc); err != nil {
		return err
	}
	said := fmt.Sprintf("Review feedback became %s.", strings.Join(added, ", "))
	s.noteMerged([]string{said})
	e.emit(run.Event{Kind: run.EventEdited, Text: said}, s)
	return e.workOn(ctx, s, doc)
}

func (s *State) feedback(key string) (Feedback, bool) {
	i := slices.IndexFunc(s.Feedback, func(f Feedback) bool { return f.Key == key })
	if i < 0 {
		return Feedback{}, false
	}
	return s.Feedback[i], true
}

// keepFeedback puts f in the place of what was said in the same conversation.
func (s *State) keepFeedback(f Feedback) {
	s.Feedback = slices.DeleteFunc(s.Feedback, func(was Feedback) bool { return was.Key == f.Key })
	s.Feedback = append(s.Feedback, f)
	for len(s.Feedback) > maxFeedback {
		i := max(0, slices.IndexFunc(s.Feedback, Feedback.over))
		s.Feedback = slices.Delete(s.Feedback, i, i+1)
	}
}

// over says whether nothing more is to be done about it.
func (f Feedback) over() bool { return f.Commit != "" || f.Standing == FeedbackDropped }

// Note keeps what was said of the work of a run that has ended, where that brings
// no task.
func (s *State) Note(list []Heard) {
	s.Feedback = slices.Clone(s.Feedback)
	for _, h := range list {
		f := h.Feedback
		if was, ok := s.feedback(f.Key); ok {
			f.Rounds = was.Rounds
		}
		s.keepFeedback(f)
	}
}

// Unsettled says whether something that was said waits for people.
func (s *State) Unsettled() bool {
	return slices.ContainsFunc(s.Feedback, func(f Feedback) bool { return f.Standing == FeedbackAsked })
}

// Answered are the conversations whose work has landed, all of it.
func (s *State) Answered() ([]Feedback, error) {
	if !slices.ContainsFunc(s.Feedback, func(f Feedback) bool { return f.Commit != "" && f.Comment != 0 }) {
		return nil, nil
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	doc := s.doc()
	open := map[string]bool{}
	for _, t := range doc.Tasks() {
		if t.Status != run.TaskDone && t.Status != run.TaskSkipped {
			open[t.ID], open[s.of(t.ID).Parent] = true, true
		}
	}
	var out []Feedback
	for _, f := range s.Feedback {
		if f.Commit != "" && f.Comment != 0 && !f.Told && !open[f.TaskID] {
			out = append(out, f)
		}
	}
	return out, nil
}

// noteLanding notes what a commit did for what people said.
func (s *State) noteLanding(task string, landed Landed, did string) {
	for i := range s.Feedback {
		f := &s.Feedback[i]
		part := f.TaskID == s.of(task).Parent
		if f.TaskID == "" || f.Standing != FeedbackTask || f.TaskID != task && !part || f.Commit != "" && !part {
			continue
		}
		f.Commit, f.Did, f.Quote = landed.OID, did, ""
	}
}

// quotes is what was said that a task, or the one it is a part of, is about.
func (s *State) quotes(task string) string {
	var parts []string
	for _, f := range s.Feedback {
		if f.Quote != "" && f.TaskID != "" && (f.TaskID == task || f.TaskID == s.of(task).Parent) {
			parts = append(parts, f.Quote)
		}
	}
	return strings.Join(parts, "\n\n")
}
