package agent

import (
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// Assignment is what a prompt tells a machine that reads it: the scripted
// agent and the tests' model server. A prompt carries it as lines of their own,
// before any text a stranger wrote, because the first line of each kind counts:
//
//	Task: T1
//	Progress file: .ralph/7/progress.md
//	Mode: build
//
// A prompt may add the number of the attempt at this task:
//
//	Attempt: 2
type Assignment struct {
	// Task is the id of the task, or "" when planning.
	Task string
	// Title is what follows the id on the line, if anything does.
	Title string
	// ProgressFile is relative to the work tree, with forward slashes.
	ProgressFile string
	Mode         run.Mode
	// Attempt counts from 1; 0 means the prompt does not say.
	Attempt int
}

// ReadAssignment finds the assignment in a prompt. What the prompt does not say is empty.
func ReadAssignment(prompt string) Assignment {
	var a Assignment
	seen := map[string]bool{}
	for line := range strings.Lines(prompt) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		switch name {
		case "Task":
			if a.Task, a.Title, _ = strings.Cut(value, " "); a.Task == "-" {
				a.Task = ""
			}
		case "Progress file":
			a.ProgressFile = value
		case "Mode":
			a.Mode = run.Mode(value)
		case "Attempt":
			a.Attempt, _ = strconv.Atoi(value) // 0 where it is no number
		}
	}
	return a
}
