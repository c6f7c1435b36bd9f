package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

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

// maxState bounds a stored state, in bytes: it is read and written with each step.
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
	if s.Attempts == nil {
		s.Attempts = map[string]int{}
	}
	if s.Records == nil {
		s.Records = map[string]*TaskRecord{}
	}
	for _, m := range []*map[string]gate.Result{&s.GateMemo, &s.Baseline} {
		if *m == nil {
			*m = map[string]gate.Result{}
		}
	}
}

// clone is a copy of s that shares nothing with it that a step may change. The work of a
// step is done on such a copy, so that a step that fails has changed nothing.
func (s State) clone() State {
	return deepCopy(reflect.ValueOf(s)).Interface().(State) //nolint:forcetypeassert // it is a copy of one
}

// deepCopy copies what v consists of. Fields that are not exported are shared: those of times
// and of parsed documents are never changed.
func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() { //nolint:exhaustive // the others are values
	case reflect.Struct:
		for i := range v.NumField() {
			if out.Field(i).CanSet() {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(deepCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for it := v.MapRange(); it.Next(); {
				out.SetMapIndex(deepCopy(it.Key()), deepCopy(it.Value()))
			}
		}
	}
	return out
}
