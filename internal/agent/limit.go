package agent

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // zones are known on machines without a copy, too
)

// The forms in which CLIs say when a limit ends.
var (
	// A second of the epoch, as in "Claude AI usage limit reached|1795905798".
	epochRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\|(\d{10})\b`) })
	// A length of time, as in "try again in 3 hours 12 minutes" or "in 2d 4h".
	spanRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\bin ((?:(?:about )?\d{1,5} ?(?:days?|hours?|hrs?|minutes?|mins?|seconds?|secs?|[dhms])\b(?:,? (?:and )?)?)+)`)
	})
	partRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(\d{1,5}) ?([dhms])`) })
	// A time of the clock, with a weekday or a date before it and a zone behind it or not, as
	// in "resets 10am (Europe/Zurich)", "resets Mon 9:30pm" or "Try again at Dec 3rd, 2026 3:00 PM".
	clockRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(?:resets?|again|available|until)(?: at| on)? ` +
			`(?:(mon|tue|wed|thu|fri|sat|sun)[a-z]*,? (?:at )?)?` +
			`(?:([a-z]{3})[a-z]* (\d{1,2})(?:st|nd|rd|th)?,? (?:(\d{4}),? )?(?:at )?)?` +
			`(\d{1,2})(?::(\d\d))? ?([ap]m)?\b(?: ?\(?([A-Z][A-Za-z_]+(?:/[A-Za-z_+\-0-9]+)*)\)?)?`)
	})
)

// limitEnd reads in an agent's words when a limit ends, as said at a time and a place: where
// the words name no zone, the place's is meant. It is zero where they do not tell.
func limitEnd(words string, at time.Time) time.Time {
	if at.IsZero() {
		return time.Time{}
	}
	if m := epochRE().FindStringSubmatch(words); m != nil {
		second, _ := strconv.ParseInt(m[1], 10, 64) // ten digits
		return time.Unix(second, 0).UTC()
	}
	if m := spanRE().FindStringSubmatch(words); m != nil {
		var left time.Duration
		for _, part := range partRE().FindAllStringSubmatch(m[1], -1) {
			n, _ := strconv.Atoi(part[1]) // five digits at most
			left += time.Duration(n) * map[string]time.Duration{
				"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second,
			}[strings.ToLower(part[2])]
		}
		return at.Add(left).UTC()
	}
	if m := clockRE().FindStringSubmatch(words); m != nil {
		return clockTime(m, at)
	}
	return time.Time{}
}

// clockTime is the next time that the clock and the calendar show what a match of clockRE
// says, zero where they never do.
func clockTime(m []string, at time.Time) time.Time {
	weekday, month, half := strings.ToLower(m[1]), strings.ToLower(m[2]), strings.ToLower(m[7])
	day, _ := strconv.Atoi(m[3]) // digits, or none
	year, _ := strconv.Atoi(m[4])
	hour, _ := strconv.Atoi(m[5])
	minute, _ := strconv.Atoi(m[6])
	if zone, err := time.LoadLocation(m[8]); err == nil && m[8] != "" {
		at = at.In(zone)
	}
	switch {
	case half != "" && (hour < 1 || hour > 12), hour > 23, minute > 59, half == "" && m[6] == "":
		return time.Time{}
	case half == "am" && hour == 12:
		hour = 0
	case half == "pm" && hour < 12:
		hour += 12
	}
	if month != "" {
		first, err := time.Parse("Jan", strings.ToUpper(month[:1])+month[1:])
		if err != nil || day < 1 || day > 31 {
			return time.Time{}
		}
		end := time.Date(max(year, at.Year()), first.Month(), day, hour, minute, 0, 0, at.Location())
		if year == 0 && !end.After(at) {
			end = end.AddDate(1, 0, 0)
		}
		return end.UTC()
	}
	for days := range 8 {
		end := time.Date(at.Year(), at.Month(), at.Day()+days, hour, minute, 0, 0, at.Location())
		if end.After(at) && (weekday == "" || strings.HasPrefix(strings.ToLower(end.Weekday().String()), weekday)) {
			return end.UTC()
		}
	}
	return time.Time{}
}
