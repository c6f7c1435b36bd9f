package loop

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/org/ralph-action/internal/gate"
)

// stateVersion changes when a stored state can no longer be read as it stands.
const stateVersion = 1

type storedState struct {
	Version int
	State   State
}

// Encode gives the stored form of s.
func Encode(s State) ([]byte, error) {
	b, err := json.Marshal(storedState{Version: stateVersion, State: s})
	if err != nil {
		return nil, fmt.Errorf("encode run state: %w", err)
	}
	return b, nil
}

// maxState bounds the text of a state, in bytes: it is read and written with each step.
// What agents and people put into it has bounds of its own, far below this; it is for what
// those come to together, and for what nobody thought of.
const maxState = 4 << 20

// tooLarge is why a run ends whose state outgrows that.
var tooLarge = fmt.Sprintf("its notes outgrew the %d MiB that a run may keep. "+
	"What to do first: shorten the issue and progress.md, or split the work over several issues", maxState>>20)

// ErrStateVersion is returned for a state another version of this program
// stored in a form this one does not know.
var ErrStateVersion = errors.New("loop: unknown version of the stored state")

// Decode reads the stored form of a state.
func Decode(b []byte) (State, error) {
	var stored storedState
	if err := json.Unmarshal(b, &stored); err != nil {
		return State{}, fmt.Errorf("decode run state: %w", err)
	}
	if stored.Version != stateVersion {
		than := "an older"
		if stored.Version > stateVersion {
			than = "a newer"
		}
		return State{}, fmt.Errorf("%w: %s version of this program stored it, in form %d; this one reads form %d",
			ErrStateVersion, than, stored.Version, stateVersion)
	}
	s := stored.State
	s.makeMaps()
	return s, nil
}

// makeMaps makes the maps that steps write to.
func (s *State) makeMaps() {
	for _, m := range []*map[string]int{&s.Attempts, &s.Reopened, &s.Acknowledged, &s.Partial, &s.Verified} {
		if *m == nil {
			*m = map[string]int{}
		}
	}
	for _, m := range []*map[string]gate.Result{&s.GateMemo, &s.Baseline} {
		if *m == nil {
			*m = map[string]gate.Result{}
		}
	}
}
