package handlers

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Verb is what is to be done.
type Verb string

// The commands there are.
const (
	VerbPlan    Verb = "plan"
	VerbApprove Verb = "approve"
	VerbStart   Verb = "start"
	VerbStop    Verb = "stop"
	VerbResume  Verb = "resume"
	VerbRetry   Verb = "retry"
	VerbSkip    Verb = "skip"
	VerbDo      Verb = "do"
	VerbStatus  Verb = "status"
	VerbBudget  Verb = "budget"
	VerbHelp    Verb = "help"
)

// Usage is one command as people are told of it.
type Usage struct {
	Verb Verb
	// Form is how it is written, Does what it does, as a sentence without a
	// subject.
	Form, Does string
}

// Usages lists every command, in the order of the documentation.
func Usages() []Usage {
	return []Usage{
		{
			VerbPlan, "/ralph plan",
			"Writes a plan without changing code, from the issue as it is now and the answers to the bot's questions.",
		},
		{
			VerbApprove, "/ralph approve",
			"Approves the plan posted last and starts work on it. `/ralph approve 1a2b3c4` names the plan by its hash.",
		},
		{VerbStart, "/ralph start", "Starts a run on the issue as it is now, like adding the label."},
		{VerbStop, "/ralph stop", "Stops the run. Finished work stays on the branch."},
		{VerbResume, "/ralph resume", "Continues where the last run stopped."},
		{VerbRetry, "/ralph retry T3", "Gives a task new attempts and continues. Without a task: all blocked tasks."},
		{VerbSkip, "/ralph skip T3", "Skips a task, even one in progress."},
		{VerbDo, "/ralph do <text>", "Adds a task in your name."},
		{VerbStatus, "/ralph status", "Shows the run's status."},
		{VerbBudget, "/ralph budget +5", "Lets the run spend $5 more, up to the server's limit."},
		{VerbHelp, "/ralph help", "Lists these commands."},
	}
}

// Command is what a comment asks for.
type Command struct {
	Verb Verb
	// Task is the id of a task ("T3"): of VerbSkip always, of VerbRetry where one is
	// named.
	Task string
	// Text is what VerbDo is to do. It is outside text.
	Text string
	// USD is by how much VerbBudget raises.
	USD float64
	// Hash is the beginning of a plan's hash in lower-case hexadecimal, where
	// VerbApprove names one.
	Hash string
}

const (
	prefix = "/ralph"
	// maxLine bounds a first line that is looked at; a task can be no longer.
	maxLine = 2000
	// maxUSD is more than anybody raises a budget by at a time.
	maxUSD = 10_000
	// A hash is named by 7 digits at least, as git does.
	minHash, maxHash = 7, 64
)

// CommandError says what is wrong with something that is meant as a command, in words
// for whoever wrote it. It holds nothing of what they wrote.
type CommandError struct{ Message string }

// Error implements error.
func (e *CommandError) Error() string { return e.Message }

func wrong(format string, args ...any) error {
	return &CommandError{fmt.Sprintf(format, args...)}
}

// ParseCommand reads a comment. ok says whether it is meant as a command; the error, an
// *CommandError, is why it cannot be carried out.
func ParseCommand(body string) (c Command, ok bool, err error) {
	line, _, _ := strings.Cut(body, "\n")
	line = strings.TrimSuffix(line, "\r")
	rest, found := strings.CutPrefix(line, prefix)
	if !found || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return Command{}, false, nil
	}
	if c, err = parseVerb(rest); err != nil {
		return Command{}, true, err
	}
	return c, true, nil
}

// parseVerb reads what stands behind the prefix.
func parseVerb(rest string) (c Command, err error) {
	if len(rest) > maxLine {
		return c, wrong("The command is too long: use at most %d characters.", maxLine)
	}
	rest = strings.Trim(rest, " \t")
	word, args, _ := strings.Cut(strings.ReplaceAll(rest, "\t", " "), " ")
	args = strings.TrimSpace(args)
	c.Verb = Verb(lower(word))
	if c.Verb == "" {
		c.Verb = VerbHelp
	}
	switch c.Verb {
	case VerbPlan, VerbStart, VerbStop, VerbResume, VerbStatus, VerbHelp:
		if args != "" {
			return c, wrong("`%s %s` takes no arguments.", prefix, c.Verb)
		}
	case VerbApprove:
		if c.Hash = lower(args); args != "" && !isHash(c.Hash) {
			return c, wrong("That is not a plan's hash. Use the hash posted with the plan, or just `/ralph approve`.")
		}
	case VerbRetry, VerbSkip:
		if c.Verb == VerbRetry && args == "" {
			break
		}
		id, ok := taskID(args)
		if !ok {
			return c, wrong("Name one task by its ID: `%s %s T3`.", prefix, c.Verb)
		}
		c.Task = id
	case VerbDo:
		if c.Text = args; args == "" {
			return c, wrong("Write the task on the same line: `/ralph do Add a test for the empty list`.")
		}
	case VerbBudget:
		usd, ok := amount(args)
		if !ok {
			return c, wrong("Say how many dollars to add, at most %d: `/ralph budget +5`.", maxUSD)
		}
		c.USD = usd
	default:
		return c, wrong("Unknown command.")
	}
	return c, nil
}

// lower is strings.ToLower for ASCII alone: in Unicode some signs that are no
// letters of ours become one (U+212A is a k).
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// taskID reads "T3", "t3" or "T03" as "T3".
func taskID(s string) (string, bool) {
	if len(s) < 2 || len(s) > 7 || lower(s[:1]) != "t" || !only(s[1:], "0123456789") {
		return "", false
	}
	n, err := strconv.Atoi(s[1:])
	return "T" + strconv.Itoa(n), err == nil && n > 0
}

func isHash(s string) bool {
	return len(s) >= minHash && len(s) <= maxHash && only(s, "0123456789abcdef")
}

// amount reads "+5", "+$5" or "+5.50".
func amount(s string) (float64, bool) {
	s, plus := strings.CutPrefix(s, "+")
	s = strings.TrimPrefix(s, "$")
	if !plus || s == "" || !only(s, "0123456789.") {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return math.Round(v*100) / 100, err == nil && v >= 0.01 && v <= maxUSD
}

func only(s, chars string) bool {
	return strings.Trim(s, chars) == ""
}

// CommentWish is what somebody asks for by a comment: by its text or, explicit, by a
// command, whose text may be empty: then the conversation says it. ok is false for
// commands that are none for a conversation.
func CommentWish(text string) (said string, explicit, ok bool) {
	line, _, _ := strings.Cut(text, "\n")
	if strings.TrimRight(line, " \t\r") == "/ralph do" {
		return "", true, true
	}
	c, is, err := ParseCommand(text)
	switch {
	case !is:
		return strings.TrimSpace(text), false, true
	case err != nil || c.Verb != VerbDo:
		return "", false, false
	default:
		return c.Text, true, true
	}
}

// CommandInReview says whether something that was said in a review begins with a command,
// and what is wrong with it, "" for nothing: only `do` is one for a review
func CommandInReview(text string, inThread bool) (is bool, problem string) {
	if _, explicit, _ := CommentWish(text); inThread && explicit {
		return true, ""
	}
	c, is, err := ParseCommand(text)
	switch {
	case !is:
		return false, ""
	case err != nil:
		return true, err.Error()
	case c.Verb != VerbDo:
		return true, "A review accepts only `/ralph do`. Use an ordinary comment for other commands."
	default:
		return true, ""
	}
}
