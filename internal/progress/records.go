package progress

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// logHeader starts the table of the Iteration Log.
const logHeader = "| Iteration | Started | Duration | Tasks Completed | Notes |\n" +
	"|-----------|---------|----------|-----------------|-------|\n"

// logTime is how the log writes the time at which an iteration started.
const logTime = "2006-01-02 15:04:05Z"

// Attempt is what one iteration tried at a task and why that was not enough.
type Attempt struct {
	Iteration int
	// Tried and Next are one line each. Result may be many, as a gate prints
	// them; the middle is left out if it is long.
	Tried, Result, Next string
}

// RecordAttempt adds an attempt to Recent Attempts.
func (d *Doc) RecordAttempt(a Attempt) error {
	eol := d.eol()
	var b strings.Builder
	fmt.Fprintf(&b, "### Iteration %d", a.Iteration)
	if s := inline(a.Tried, maxLine); s != "" {
		b.WriteString(eol + "- Tried: " + s)
	}
	switch result := strings.TrimSpace(a.Result); {
	case strings.ContainsAny(result, "\r\n"):
		b.WriteString(eol + "- Result:" + eol + eol + fenced(a.Result, eol))
	case result != "":
		b.WriteString(eol + "- Result: " + inline(result, maxLine))
	}
	if s := inline(a.Next, maxLine); s != "" {
		b.WriteString(eol + "- Next: " + s)
	}
	return d.appendTo(SectionAttempts, b.String())
}

// Attempts reads Recent Attempts: what stands under each heading "Iteration N",
// as it is written there.
func (d *Doc) Attempts() []Attempt {
	i := d.find(SectionAttempts)
	if i < 0 {
		return nil
	}
	var out []Attempt
	end := d.sectionEnd(i)
	for k := i + 1; k < len(d.heads) && d.heads[k].start < end; k++ {
		n, ok := iterationNumber(d.heads[k].text)
		if !ok {
			continue
		}
		stop := end
		if k+1 < len(d.heads) {
			stop = min(end, d.heads[k+1].start)
		}
		out = append(out, readAttempt(n, string(d.src[d.heads[k].body:stop])))
	}
	return out
}

// iterationNumber reads the N of "Iteration N" and of "Iteration N (T3)".
func iterationNumber(heading string) (int, bool) {
	words := strings.Fields(heading)
	if len(words) < 2 || !strings.EqualFold(words[0], "iteration") {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimRight(words[1], ":"))
	return n, err == nil
}

// readAttempt reads the bullets of an attempt. What stands below a bullet, in a
// code fence or not, belongs to it.
func readAttempt(iteration int, block string) Attempt {
	fields := make(map[string][]string, 3) // lines by label
	field, fence, dent := "", "", 0
	for l := range strings.Lines(block) {
		l = strings.TrimRight(l, " \t\r\n")
		text := strings.TrimLeft(l, " \t")
		run := fenceRun(text)
		switch {
		case fence != "" && text == run && strings.HasPrefix(run, fence):
			fence = ""
			continue
		case fence != "":
			l = l[min(dent, len(l)-len(text)):]
		case run != "":
			fence, dent = run, len(l)-len(text)
			continue
		default:
			if name, rest, ok := label(strings.TrimLeft(text[markerLen(text+"\n"):], " \t")); ok &&
				anyFold(name, "tried", "result", "next") {
				field = strings.ToLower(name)
				fields[field] = nil
				text = strings.TrimSpace(rest)
			}
			l = text
		}
		if field != "" {
			fields[field] = append(fields[field], l)
		}
	}
	read := func(name string) string { return strings.Trim(strings.Join(fields[name], "\n"), "\n") }
	return Attempt{Iteration: iteration, Tried: read("tried"), Result: read("result"), Next: read("next")}
}

// fenceRun is the run of backticks or tildes that opens or closes a code fence,
// or "".
func fenceRun(s string) string {
	if s == "" || s[0] != '`' && s[0] != '~' {
		return ""
	}
	run := s[:len(s)-len(strings.TrimLeft(s, s[:1]))]
	if len(run) < 3 || strings.Contains(s[len(run):], "`") {
		return ""
	}
	return run
}

// LogRow is one line of the Iteration Log.
type LogRow struct {
	Iteration int
	Started   time.Time
	Duration  time.Duration
	Completed string // ids of the tasks completed
	Notes     string
}

// AppendLog adds a row to the Iteration Log, after its table's last row.
func (d *Doc) AppendLog(r LogRow) error {
	row := fmt.Sprintf("| %d | %s | %s | %s | %s |", r.Iteration,
		r.Started.UTC().Format(logTime), r.Duration.Round(time.Second), cell(r.Completed), cell(r.Notes))
	i := d.find(SectionLog)
	if i < 0 {
		return d.SetSection(SectionLog, logHeader+row)
	}
	if rows := d.tableLines(i); len(rows) > 0 {
		at, text := lineEnd(d.src, rows[len(rows)-1].start), row+d.eol()
		if d.src[at-1] != '\n' {
			text = d.eol() + text
		}
		return d.patch(Patch{at, at, text})
	}
	return d.patch(d.tailPatch(d.heads[i].body, d.sectionEnd(i), d.withEOL(logHeader+row)))
}

// tableLines gives the lines of the tables in the section under heading i.
func (d *Doc) tableLines(i int) (rows []line) {
	body, end := d.heads[i].body, d.sectionEnd(i)
	for _, l := range d.prose {
		if l.start >= body && l.stop <= end && l.start < l.stop && d.src[l.start] == '|' {
			rows = append(rows, l)
		}
	}
	return rows
}

// Log reads the rows of the Iteration Log. Rows without a number are left out;
// times and durations in another form than ours may be zero.
func (d *Doc) Log() []LogRow {
	i := d.find(SectionLog)
	if i < 0 {
		return nil
	}
	var out []LogRow
	for _, l := range d.tableLines(i) {
		c := cells(d.text(l))
		n, err := strconv.Atoi(c[0])
		if err != nil {
			continue
		}
		r := LogRow{Iteration: n, Started: startTime(c[1]), Completed: c[3], Notes: c[4]}
		if took, err := time.ParseDuration(c[2]); err == nil {
			r.Duration = took
		}
		out = append(out, r)
	}
	return out
}

// maxIteration is the highest number of an iteration that is believed.
const maxIteration = 1_000_000

// LastIteration is the highest number in the Iteration Log, 0 for none.
func (d *Doc) LastIteration() int {
	last := 0
	for _, r := range d.Log() {
		if r.Iteration <= maxIteration {
			last = max(last, r.Iteration)
		}
	}
	return last
}

// cells splits a row of the Iteration Log. Cells that are missing are empty.
func cells(row string) (out [5]string) {
	row = strings.ReplaceAll(strings.TrimPrefix(row, "|"), `\|`, "&#124;")
	for i := range out {
		cell, rest, _ := strings.Cut(row, "|")
		out[i], row = strings.ReplaceAll(strings.TrimSpace(cell), "&#124;", "|"), rest
	}
	return out
}

// startTime reads a time as we write it, and as others do.
func startTime(s string) time.Time {
	for _, layout := range [...]string{logTime, time.RFC3339, time.DateTime, "2006-01-02 15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
