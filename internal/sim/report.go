package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown is the report for people: for each mix what both loops came to, how
// their runs ended, and which bars hold.
func Markdown(results []Result) string {
	var b strings.Builder
	for i, r := range results {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "### %s: %d runs, seed %d\n\n", r.Mix, r.Runs, r.Seed)
		b.WriteString("| | Ralph Bot | Plain Ralph |\n| --- | ---: | ---: |\n")
		row := func(name string, of func(Totals) string) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, of(r.Loop), of(r.Plain))
		}
		number := func(name string, of func(Totals) int) {
			row(name, func(t Totals) string { return fmt.Sprint(of(t)) })
		}
		number("runs called complete", func(t Totals) int { return t.Complete })
		number("runs truly finished", func(t Totals) int { return t.Finished })
		number("**false completions**", func(t Totals) int { return t.FalseCompletions })
		number("**commits that break a check**", func(t Totals) int { return t.BadCommits })
		number("**good work lost** (values)", func(t Totals) int { return t.LostWork })
		fmt.Fprintf(&b, "| **honest work called failed** | %d | – |\n", r.Loop.HonestRefused)
		number("**runs over budget**", func(t Totals) int { return t.OverBudget })
		row("solvable tasks finished", func(t Totals) string {
			return fmt.Sprintf("%d of %d (%s)", t.Solved, t.Solvable, percent(t.Solved, t.Solvable))
		})
		number("agent calls", func(t Totals) int { return t.Calls })
		row("calls per finished task¹", func(t Totals) string { return fmt.Sprintf("%.2f", t.PerTask()) })
		row("– refused ones left out", func(t Totals) string {
			return fmt.Sprintf("%.2f", share(t.CleanIterations, t.CleanSolved))
		})
		row("calls at a hopeless task after the evidence²", func(t Totals) string {
			return fmt.Sprintf("%.2f, at most %d", share(t.LateAll, t.Hopeless), t.LateMost)
		})
		row("virtual hours a run", func(t Totals) string { return fmt.Sprintf("%.1f", t.Hours/float64(max(r.Runs, 1))) })
		row("dollars a run", func(t Totals) string { return fmt.Sprintf("%.2f", t.Dollars/float64(max(r.Runs, 1))) })
		row("ends", func(t Totals) string { return ends(t.Ends) })
		b.WriteString("\n| Bar | Is | Must be | |\n| --- | ---: | ---: | --- |\n")
		for _, bar := range r.Bars {
			word := "holds"
			if !bar.Held {
				word = "**fails**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", bar.Name, bar.Is, bar.Must, word)
		}
		b.WriteString(faultTable(r))
		for _, t := range r.Loop.Troubles {
			fmt.Fprintf(&b, "\nThe loop failed with: `%s`\n", strings.ReplaceAll(t, "`", "'"))
		}
	}
	return b.String()
}

// faultTable tells of each fault what became of it, in the order in which they are
// drawn; "" where no call had one.
func faultTable(r Result) string {
	var names []string
	for _, f := range Faults() {
		names = append(names, string(f))
	}
	for _, f := range PlanFaults() {
		names = append(names, string(f))
	}
	for _, f := range ReviewFaults() {
		names = append(names, string(f))
	}
	for _, f := range VerifyFaults() {
		names = append(names, string(f))
	}
	var b strings.Builder
	for _, name := range names {
		f, ok := r.Loop.Faults[name]
		if !ok {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\n| Fault | Calls | Caught | Tasks hit | Finished | Finished by plain Ralph |\n" +
				"| --- | ---: | ---: | ---: | ---: | ---: |\n")
		}
		p := r.Plain.Faults[name]
		fmt.Fprintf(&b, "| %s | %d | %s | %d | %s | %s |\n", name, f.Calls, percent(f.Calls-f.Harmful, f.Calls), f.Tasks,
			percent(f.Finished, f.Tasks), percent(p.Finished, p.Tasks))
	}
	return b.String()
}

// ends lists how runs ended, the most frequent first.
func ends(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return strings.Join(names, ", ")
}

// The lines between which a document holds the report.
const (
	reportBegin = "<!-- begin: written by bot sim --update -->\n"
	reportEnd   = "<!-- end -->\n"
)

// Update puts the report into a document, in place of the one that stands there.
func Update(doc, report string) (string, error) {
	before, rest, ok := strings.Cut(doc, reportBegin)
	if ok {
		if _, after, found := strings.Cut(rest, reportEnd); found {
			return before + reportBegin + "\n" + report + "\n" + reportEnd + after, nil
		}
	}
	return "", errors.New("the document has no place for the report: it needs the lines " +
		strings.TrimSpace(reportBegin) + " and " + strings.TrimSpace(reportEnd))
}
