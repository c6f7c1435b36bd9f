package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/supervise"
)

// Whatever the supervisor may say and however a run may end, there is a story
// in testdata/script in which the program does just that.
func TestEveryKindHasAStory(t *testing.T) {
	t.Parallel()
	var kinds []string
	for _, k := range supervise.VerdictKinds() {
		kinds = append(kinds, "verdict/"+string(k))
	}
	for _, k := range supervise.PatternKinds() {
		kinds = append(kinds, "pattern/"+string(k))
	}
	for _, k := range supervise.StrategyKinds() {
		kinds = append(kinds, "strategy/"+string(k))
	}
	for _, k := range run.EndReasons() {
		kinds = append(kinds, "end/"+string(k))
	}
	stories, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for _, file := range stories {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`(?m)^saw (.*)$`).FindAllStringSubmatch(string(src), -1) {
			for kind := range strings.FieldsSeq(line[1]) {
				told[kind] = append(told[kind], filepath.Base(file))
			}
		}
	}
	for _, kind := range kinds {
		if len(told[kind]) == 0 {
			t.Errorf("no story in testdata/script has `saw %s`", kind)
		}
		delete(told, kind)
	}
	for kind, files := range told {
		t.Errorf("%v: there is no %s", slices.Compact(files), kind)
	}
}
