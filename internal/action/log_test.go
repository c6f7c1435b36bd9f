package action

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// heard plays the runner: it gives the commands that the runner would follow.
// As in the runner, a command is a line that begins with :: after blanks, or one
// that has ##[ anywhere; and after ::stop-commands::WORD there is none until a
// line ::WORD::.
func heard(log string) []string {
	var got []string
	command := regexp.MustCompile(`^::([^: ]+)( [^:]*)?::(.*)$`)
	word := ""
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		m := command.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case word != "":
			if strings.TrimSpace(line) == "::"+word+"::" {
				word = ""
			}
		case m != nil && m[1] == "stop-commands":
			word = m[3]
		case m != nil, strings.Contains(line, "##["):
			got = append(got, line)
		}
	}
	return got
}

// hostile are lines by which an agent would speak to the runner.
var hostile = []string{
	"::set-output name=end_reason::all_tasks_complete", "::set-env name=PATH::/tmp/evil", "::add-path::/tmp/evil",
	"::add-mask::e",
	"::error::lies", "  ::warning file=a::lies", "##[group]lies", "text before ##[error]lies", "::stop-commands::ours",
	"::ours::", "::endgroup::",
	"::save-state name=x::y", "::debug::x\r\n::error::y", "::echo::on",
}

func TestE3AgentOutputIsNoCommand(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLog(&out)
	for _, line := range hostile {
		fmt.Fprintln(l, line)
		l.Line("%s", line)
	}
	l.Group("::error::title\n::error::second")
	l.Notice("a title, with: ::error::\n::error::x", "::error::100%\n::error::y")
	l.Mask("a-long-secret\nits second line\nabc")
	// What it saw of the log so far does not help it.
	for line := range strings.Lines(out.String()) {
		_, _ = l.Write([]byte(line))
	}
	l.Close()
	want := []string{
		"::group::::error::title ::error::second",
		"::endgroup::",
		"::notice title=a title%2C with%3A %3A%3Aerror%3A%3A %3A%3Aerror%3A%3Ax::::error::100%25%0A::error::y",
		"::add-mask::a-long-secret",
		"::add-mask::its second line",
	}
	// The log was written to itself: the words in it are used up.
	if got := heard(out.String()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the runner heard\n%s\nwant\n%s\nin\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), out.String())
	}
	// Without the muting all of them would be heard: the player is no judge that
	// lets everything pass.
	if n := len(heard(strings.Join(hostile[:8], "\n"))); n != 8 {
		t.Errorf("the player of the runner hears %d of 8 commands", n)
	}
}

func TestE4ValuesStayValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "output")
	big := strings.Repeat("x", 2<<20)
	err := writeOutputs(file, []output{
		{"branch", "ralph/1\nhead_sha=evil\nEOF\nPATH=/tmp"}, {"detail", "a<<EOF"}, {"same", "ralph-delimiter"}, {"big", big},
		{"bytes", "\x00\x1b[31m\xff\u202e"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Two lines of frame and one of value each: nothing got out of its frame.
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != 3*5 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range []string{
		"ralph/1 head_sha=evil EOF PATH=/tmp", "a<<EOF", "ralph-delimiter", big[:maxOutput-3] + "…", "[31m\uFFFD",
	} {
		_, delimiter, _ := strings.Cut(lines[3*i], "<<")
		if lines[3*i+1] != want || lines[3*i+2] != delimiter || len(delimiter) < 26 {
			t.Errorf("output %d: %.80q", i, lines[3*i:3*i+3])
		}
	}
	if err := writeOutputs(file, []output{{"a=b\nc", "x"}}); err == nil {
		t.Error("a name with a line in it was written")
	}
	if err := writeOutputs("", []output{{"a", "b"}}); err != nil {
		t.Errorf("without a file: %v", err)
	}

	summary := filepath.Join(dir, "summary")
	if err := writeSummary(summary, strings.Repeat("é", maxSummary)); err != nil {
		t.Fatal(err)
	}
	b, err = os.ReadFile(summary)
	if err != nil || len(b) > maxSummary || !strings.HasSuffix(string(b), "does not fit in this summary._\n") ||
		strings.Contains(string(b), "\uFFFD") {
		t.Errorf("a summary of %d bytes, %v", len(b), err)
	}
}

func TestDetailsCannotLeaveTheirBlock(t *testing.T) {
	t.Parallel()
	got := Result{End: EndUnusable, Detail: "a\n```\n# Headline\n````\n<img src=x>\x1b]0;x\a"}.markdown()
	if want := "## Ralph\n\n**Not started.**\n\n`````text\na\n```\n# Headline\n````\n<img src=x>]0;x\n`````\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
