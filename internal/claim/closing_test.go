package claim_test

import (
	"testing"

	"github.com/org/ralph-action/internal/claim"
)

func TestSaysThere(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"It was there already, see a.go:3.":                         true,
		"`Greet` is already implemented; all tests pass.":           true,
		"No changes were needed: the handler returns 404 as asked.": true,
		"There is nothing to do here.":                              true,
		"Die Funktion ist bereits vorhanden.":                       true,
		"La función ya existe en greet.go.":                         true,
		"La fonction existe déjà.":                                  true,
		"A função já existe.":                                       true,
		"该函数已经实现。":                                                  true,
		"The task is complete.":                                     false,
		"Everything is finished. <promise>COMPLETE</promise>":       false,
		"Implemented the retry and all tests pass.":                 false,
		"": false,
	} {
		if got := claim.SaysThere(message); got != want {
			t.Errorf("%q: %v, want %v", message, got, want)
		}
	}
}
