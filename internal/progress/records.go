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
	Iteration           int
	Tried, Result, Next string
}

// RecordAttempt adds an attempt to Recent Attempts, each part on one line.
func (d *Doc) RecordAttempt(a Attempt) error {
	lines := []string{fmt.Sprintf("### Iteration %d", a.Iteration)}
	for _, part := range [...][2]string{{"Tried", a.Tried}, {"Result", a.Result}, {"Next", a.Next}} {
		if s := inline(part[1], maxLine); s != "" {
			lines = append(lines, "- "+part[0]+": "+s)
		}
	}
	return d.appendTo(SectionAttempts, strings.Join(lines, d.eol()))
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

// readAttempt reads the bullets of an attempt. The lines below a bullet belong to it.
func readAttempt(iteration int, block string) Attempt {
	parts := make(map[string][]string, 3) // lines by label
	part := ""
	for l := range strings.Lines(block) {
		l = strings.TrimSpace(l)
		if name, rest, ok := label(strings.TrimLeft(l[markerLen(l+"\n"):], " \t")); ok && anyFold(name, "tried", "result", "next") {
			part, l = strings.ToLower(name), strings.TrimSpace(rest)
			parts[part] = nil
		}
		parts[part] = append(parts[part], l)
	}
	read := func(name string) string { return strings.Trim(strings.Join(parts[name], "\n"), "\n") }
	return Attempt{Iteration: iteration, Tried: read("tried"), Result: read("result"), Next: read("next")}
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

// Log reads the rows of the Iteration Log, but for when they started. Rows without a number
// are left out; a duration in another form than ours is zero.
func (d *Doc) Log() []LogRow {
	i := d.find(SectionLog)
	if i < 0 {
		return nil
	}
	var out []LogRow
	for _, l := range d.tableLines(i) {
		c := cells(d.text(l))
		if n, err := strconv.Atoi(c[0]); err == nil {
			took, _ := time.ParseDuration(c[2])
			out = append(out, LogRow{Iteration: n, Duration: took, Completed: c[3], Notes: c[4]})
		}
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
