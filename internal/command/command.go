package command

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
	Plan    Verb = "plan"
	Approve Verb = "approve"
	Start   Verb = "start"
	Stop    Verb = "stop"
	Resume  Verb = "resume"
	Retry   Verb = "retry"
	Skip    Verb = "skip"
	Do      Verb = "do"
	Status  Verb = "status"
	Budget  Verb = "budget"
	Help    Verb = "help"
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
		{Plan, "/ralph plan", "Writes a plan without changing code, from the issue as it is now and the answers to the bot's questions."},
		{Approve, "/ralph approve", "Approves the plan posted last and starts work on it. `/ralph approve 1a2b3c4` names the plan by its hash."},
		{Start, "/ralph start", "Starts a run on the issue as it is now, like adding the label."},
		{Stop, "/ralph stop", "Stops the run. Finished work stays on the branch."},
		{Resume, "/ralph resume", "Continues where the last run stopped."},
		{Retry, "/ralph retry T3", "Gives a task new attempts and continues. Without a task: all blocked tasks."},
		{Skip, "/ralph skip T3", "Skips a task, even one in progress."},
		{Do, "/ralph do <text>", "Adds a task in your name."},
		{Status, "/ralph status", "Shows the run's status."},
		{Budget, "/ralph budget +5", "Lets the run spend $5 more, up to the server's limit."},
		{Help, "/ralph help", "Lists these commands."},
	}
}

// Command is what a comment asks for.
type Command struct {
	Verb Verb
	// Task is the id of a task ("T3"): of Skip always, of Retry where one is
	// named.
	Task string
	// Text is what Do is to do. It is outside text.
	Text string
	// USD is by how much Budget raises.
	USD float64
	// Hash is the beginning of a plan's hash in lower-case hexadecimal, where
	// Approve names one.
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

// Error says what is wrong with something that is meant as a command, in words
// for whoever wrote it. It holds nothing of what they wrote.
type Error struct{ Message string }

// Error implements error.
func (e *Error) Error() string { return e.Message }

func wrong(format string, args ...any) error {
	return &Error{fmt.Sprintf(format, args...)}
}

// Parse reads a comment. ok says whether it is meant as a command; the error, an
// *Error, is why it cannot be carried out.
func Parse(body string) (c Command, ok bool, err error) {
	line, _, _ := strings.Cut(body, "\n")
	line = strings.TrimSuffix(line, "\r")
	rest, found := strings.CutPrefix(line, prefix)
	if !found || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return Command{}, false, nil
	}
	if c, err = read(rest); err != nil {
		return Command{}, true, err
	}
	return c, true, nil
}

// read reads what stands behind the prefix.
func read(rest string) (c Command, err error) {
	if len(rest) > maxLine {
		return c, wrong("The command is too long: use at most %d characters.", maxLine)
	}
	rest = strings.Trim(rest, " \t")
	word, args, _ := strings.Cut(strings.ReplaceAll(rest, "\t", " "), " ")
	args = strings.TrimSpace(args)
	c.Verb = Verb(lower(word))
	if c.Verb == "" {
		c.Verb = Help
	}
	switch c.Verb {
	case Plan, Start, Stop, Resume, Status, Help:
		if args != "" {
			return c, wrong("`%s %s` takes no arguments.", prefix, c.Verb)
		}
	case Approve:
		if c.Hash = lower(args); args != "" && !isHash(c.Hash) {
			return c, wrong("That is not a plan's hash. Use the hash posted with the plan, or just `/ralph approve`.")
		}
	case Retry, Skip:
		if c.Verb == Retry && args == "" {
			break
		}
		id, ok := taskID(args)
		if !ok {
			return c, wrong("Name one task by its ID: `%s %s T3`.", prefix, c.Verb)
		}
		c.Task = id
	case Do:
		if c.Text = args; args == "" {
			return c, wrong("Write the task on the same line: `/ralph do Add a test for the empty list`.")
		}
	case Budget:
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
