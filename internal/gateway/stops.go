package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// StopPath is where an agent asks, before it ends, whether it is to go on.
	StopPath = "/ralph/stop"
	// maxStopReport bounds what it says there, in bytes.
	maxStopReport = 4 << 20
	// maxSaid bounds what is kept of it while it waits for the answer: more than is read
	// of an agent's last message.
	maxSaid = 256 << 10
	// stopPulse is how often it is shown that its question is not forgotten: clients give
	// up an answer of which nothing comes for some minutes.
	stopPulse = 20 * time.Second
)

// Stops is where agents that are about to end meet the host, which says whether they are
// to go on. An agent that goes on works for another start than the one whose token it
// has: what it uses from then on is charged to that.
//
// What comes from there is the agent's own word. Whoever forges it has said it.
type Stops struct {
	mu sync.Mutex
	// waiting are the agents that ask, by the start they began as.
	waiting map[string]*question
	// works is the start that each works for, where that is another.
	works map[string]string
	// came is closed, and made anew, whenever one asks.
	came chan struct{}
}

// question is one that waits for its answer.
type question struct {
	said   string
	answer chan string
}

// NewStops makes one for the agents of a run.
func NewStops() *Stops {
	return &Stops{waiting: map[string]*question{}, works: map[string]string{}, came: make(chan struct{})}
}

// Said is the last message of an agent that asks whether it is to go on.
func (s *Stops) Said(agent string) (last string, asks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.waiting[agent]; q != nil {
		return q.said, true
	}
	return "", false
}

// Wait returns when the agent asks, or ctx has ended.
func (s *Stops) Wait(ctx context.Context, agent string) error {
	for {
		s.mu.Lock()
		came, asks := s.came, s.waiting[agent] != nil
		s.mu.Unlock()
		if asks {
			return nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// GoOn has an agent that asks go on with a prompt, as the start with that name. It is
// false where the agent does not ask any more.
func (s *Stops) GoOn(agent, start, prompt string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.waiting[agent]
	if q == nil {
		return false
	}
	s.works[agent] = start
	delete(s.waiting, agent)
	q.answer <- prompt
	return true
}

// End lets an agent end. Nothing is remembered of it.
func (s *Stops) End(agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.waiting[agent]; q != nil {
		close(q.answer)
	}
	delete(s.waiting, agent)
	delete(s.works, agent)
}

// worksFor is the start that an agent works for. No Stops means its own.
func (s *Stops) worksFor(agent string) string {
	if s == nil {
		return agent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if start := s.works[agent]; start != "" {
		return start
	}
	return agent
}

// ask keeps a question until it is answered. One that was asked before is over.
func (s *Stops) ask(agent, said string) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.waiting[agent]; old != nil {
		close(old.answer)
	}
	q := &question{said: said, answer: make(chan string, 1)}
	s.waiting[agent] = q
	close(s.came)
	s.came = make(chan struct{})
	return q
}

// drop forgets a question that nobody waits for any more.
func (s *Stops) drop(agent string, q *question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[agent] == q {
		delete(s.waiting, agent)
	}
}

// readStop reads what an agent that is about to end says. Its bytes count among those
// that the process holds until only what is kept of them is left.
func (h *handler) readStop(w http.ResponseWriter, r *http.Request) (said string, err error) {
	body, release, err := h.read(w, r, maxStopReport)
	if err != nil {
		return "", err
	}
	defer release()
	var report struct {
		Last string `json:"last_assistant_message"`
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return "", fmt.Errorf("read the report of an agent that ends: %w", err)
	}
	// Its last words count.
	return strings.Clone(report.Last[max(0, len(report.Last)-maxSaid):]), nil
}

// stopped answers an agent that is about to end, as soon as the host has decided.
func (h *handler) stopped(w http.ResponseWriter, r *http.Request) {
	agent, _ := h.agent(r)
	if _, err := h.start(r); err != nil {
		http.Error(w, "this run's token is missing, wrong or no longer good", http.StatusBadRequest)
		return
	}
	said, err := h.readStop(w, r)
	if err != nil {
		http.Error(w, "this is no report of an agent that ends", http.StatusBadRequest)
		return
	}
	q := h.cfg.Stops.ask(agent, said)
	defer h.cfg.Stops.drop(agent, q)
	w.Header().Set("Content-Type", "application/json")
	out := http.NewResponseController(w)
	pulse := time.NewTicker(stopPulse)
	defer pulse.Stop()
	for {
		// Blanks before a JSON document mean nothing.
		if _, err := io.WriteString(w, "\n"); err != nil || out.Flush() != nil {
			return
		}
		select {
		case prompt, goesOn := <-q.answer:
			answer := map[string]string{}
			if goesOn {
				answer = map[string]string{"decision": "block", "reason": prompt}
			}
			_ = json.NewEncoder(w).Encode(answer) // an agent that is gone is found by its process
			return
		case <-r.Context().Done():
			return
		case <-pulse.C:
		}
	}
}
