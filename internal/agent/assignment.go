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

// ReadAssignment finds the assignment in a prompt. It forgives leading blanks,
// list markers, emphasis and back quotes around the name or the value, and
// leaves empty what the prompt does not say.
func ReadAssignment(prompt string) Assignment {
	var a Assignment
	seen := map[string]bool{}
	for line := range strings.Lines(prompt) {
		name, value, ok := strings.Cut(strings.TrimLeft(line, " \t>-*_`"), ":")
		if !ok {
			continue
		}
		name = strings.ToLower(strings.Trim(name, " \t*_`"))
		value = strings.Trim(value, " \t\r\n*_`")
		if value == "" || seen[name] {
			continue
		}
		switch name {
		case "task":
			id, title, _ := strings.Cut(value, " ")
			a.Task, a.Title = strings.Trim(id, "*_`:,"), strings.TrimLeft(title, " :–—-")
			if a.Task == "-" || strings.EqualFold(a.Task, "none") {
				a.Task = ""
			}
		case "progress file":
			a.ProgressFile = value
		case "mode":
			a.Mode = run.Mode(strings.ToLower(value))
		case "attempt":
			first, _, _ := strings.Cut(value, " ")
			n, err := strconv.Atoi(first)
			if err != nil || n < 1 {
				continue
			}
			a.Attempt = n
		default:
			continue
		}
		seen[name] = true
	}
	return a
}
