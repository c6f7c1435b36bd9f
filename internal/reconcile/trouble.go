package reconcile

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

// tellAfter is how long a run has waited when people are told.
const tellAfter = time.Minute

// trouble answers a step that failed: a pause that grows, or the time GitHub
// asks for, which counts as no trouble; nor does the time that it is away, or fails. What
// only a person can fix, and what fails too often, ends the run with its reason.
// One that was cut off for taking too long counts like any other; one that was
// cut off because this process stops does not.
func (r *Reconciler) trouble(ctx context.Context, row store.Run, d *driver, s loop.State,
	err error) (time.Duration, error) {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if ctx.Err() != nil && !late {
		return 0, err
	}
	log := zerolog.Ctx(ctx)
	class, after := ghapp.Classify(err)
	if class == ghapp.RateLimited {
		log.Info().Dur("retry_after", after).Err(err).Msg("writes to GitHub wait")
		return r.pause(d, max(after, poll)), nil
	}
	if why := r.delay(err); why != "" && s.End == "" && !late {
		if s.Delayed == nil {
			log.Warn().Err(err).Str("waits_for", why).Msg("the run waits; no attempt is used")
		}
		s = d.engine.Delay(s, loop.Delayed{Why: why})
		if err := r.save(ctx, row.ID, s); err != nil {
			return 0, err
		}
		if s, err = r.tellDelay(ctx, row, s); err != nil {
			return 0, err
		}
		waited := r.cfg.Now().Sub(s.Delayed.Since)
		return r.pause(d, min(max(waited/4, firstPause), lastDelay)), nil
	}
	userErr, byPerson := errors.AsType[*run.UserError](err)
	byPerson = byPerson && !late
	giveUp := false
	if !ghapp.Denied(err) {
		d.refused = 0
	}
	switch {
	case s.End != "" && ghapp.Denied(err):
		s.Troubles++
		d.refused++
		giveUp = d.refused >= publish.MaxRefusals // a refusal is no outage
	case (ghapp.Failed(err) || errors.Is(err, gitrepo.ErrUnavailable)) && !late:
		giveUp = r.gitHubFails(d, &s) && s.End == ""
	default:
		if s.Troubles == 0 {
			s.TroubledSince = r.cfg.Now()
		}
		s.Troubles++
		d.failing = time.Time{}
		giveUp = s.Troubles >= maxTroubles && r.cfg.Now().Sub(s.TroubledSince) >= troubledFor
		if s.Troubles >= blips && s.End == "" && !byPerson {
			s = d.engine.Delay(s, loop.Delayed{
				Why: "a step fails again and again: " + r.cfg.Mask.Mask(err.Error()), GivesUp: r.givesUp(s),
			})
		}
	}
	switch {
	case s.End != "" && giveUp:
		// Telling people on GitHub is what fails: what is left are those who watch.
		log.Error().Err(err).Msg("run ended without being able to say so")
		s.Phase = run.PhaseFailed
		if err := r.save(ctx, row.ID, s); err != nil {
			return 0, err
		}
		d.engine.TellEnd(s)
		r.retire(ctx, row.ID, d)
		return 0, nil
	case s.End == "" && byPerson:
		s = d.engine.Fail(s, userErr.Error())
		s.Troubles = 0
		if unusable, ok := errors.AsType[*host.UnusableError](err); ok {
			s.EndCause = "config:" + unusable.Content
		}
	case s.End == "" && giveUp:
		s = d.engine.Fail(s, err.Error())
		s.Troubles = 0
	}
	log.Warn().Err(err).Int("in_a_row", s.Troubles).Msg("step failed")
	if err := r.save(ctx, row.ID, s); err != nil {
		return 0, err
	}
	if s.End == "" {
		var err error
		if s, err = r.tellDelay(ctx, row, s); err != nil {
			return 0, err
		}
	}
	return r.pause(d, backoff(s.Troubles)), nil
}

// backoff is the pause after so many failures in a row.
func backoff(failures int) time.Duration { return min(firstPause<<min(failures, 20), lastPause) }

// givesUp is about when a step that fails now will have failed too often.
func (r *Reconciler) givesUp(s loop.State) time.Time {
	last := r.cfg.Now()
	for n := s.Troubles; n < maxTroubles; n++ {
		last = last.Add(backoff(n))
	}
	if soonest := s.TroubledSince.Add(troubledFor); last.Before(soonest) {
		return soonest
	}
	return last
}

// gitHubFails notes that it is GitHub that fails the run's steps. That is no reason to give
// up, not even together with other failures, unless it does nothing else for a day: then it
// is what the run asks for. After the first few the run says what it waits for, and uses
// none of its time.
func (r *Reconciler) gitHubFails(d *driver, s *loop.State) (giveUp bool) {
	now := r.cfg.Now()
	if d.failing.IsZero() {
		d.failing = now
	}
	s.TroubledSince = now
	if s.Troubles++; s.Troubles >= blips && s.End == "" {
		*s = d.engine.Delay(*s, loop.Delayed{
			Why: "GitHub fails calls or does not answer", GivesUp: d.failing.Add(gitHubFor),
		})
	}
	return s.Troubles >= maxTroubles && now.Sub(d.failing) >= gitHubFor
}

// delay says what the server lacks where that is why a step failed, "" where it is not:
// the run then waits for as long as it takes, and nobody is blamed.
func (r *Reconciler) delay(err error) string {
	if delay, ok := errors.AsType[*loop.Delay](err); ok {
		return delay.Why
	}
	if errors.Is(err, sandbox.ErrUnavailable) {
		return "the engine that runs containers does not answer"
	}
	if why := machine.Trouble(err); why != "" {
		return why
	}
	if r.cfg.Lacks == nil {
		return ""
	}
	return r.cfg.Lacks()
}

// pause keeps the run from being stepped for a while; the queue sleeps less.
func (r *Reconciler) pause(d *driver, pause time.Duration) time.Duration {
	d.pause, d.pauseFor = r.cfg.Now().Add(pause), pause
	return pause
}

// occasion is what a run is said to wait for once. A time that is told holds for one wait only.
func occasion(id run.ID, d loop.Delayed) string {
	switch {
	case d.Queued:
		return "queued:" + string(id)
	case !d.GivesUp.IsZero():
		return "failing:" + string(id) + ":" + strconv.FormatInt(d.Since.Unix(), 10)
	default:
		return "delayed:" + string(id)
	}
}

// tellDelay tells people, once for each occasion, why nothing happens. One does so
// at a time: GitHub takes a comment a second, and a hundred runs may wait.
func (r *Reconciler) tellDelay(ctx context.Context, row store.Run,
	s loop.State) (loop.State, error) {
	d := s.Delayed
	if d == nil || d.Told || r.cfg.Now().Sub(d.Since) < tellAfter || !r.telling.TryLock() {
		return s, nil
	}
	defer r.telling.Unlock()
	repo := r.repoOf(row)
	number := row.IssueNumber
	if row.PullNumber > 0 {
		number = row.PullNumber
	}
	if err := r.comments.Comment(ctx, repo, number, occasion(row.ID, *d), publish.WaitingText(*d)); err != nil {
		// The run waits all the same, and tries again at its next tick.
		zerolog.Ctx(ctx).Warn().Err(err).Msg("people were not told why a run waits")
		return s, nil
	}
	told := *d
	told.Told = true
	s.Delayed = &told
	return s, r.save(ctx, row.ID, s)
}
