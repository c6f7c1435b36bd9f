package plan

import (
	"fmt"
	"testing"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"Depends on: #12": "[#12]",
		"Do it.\nDepends on #12, #13 and acme/tools#4; #12.\n": "[#12 #13 acme/tools#4]",
		"- **Depends on:** #5 & #6 for the parser":             "[#5 #6]",
		"BLOCKED BY: #7":                            "[#7]",
		"It depends on #12":                         "[]",
		"Depends on: T1":                            "[]",
		"Depends on: #0, #012, #1x":                 "[]",
		"> Depends on: #1":                          "[]",
		"```\nDepends on: #1\n```":                  "[]",
		"<!-- \nDepends on: #1\n-->\nx":             "[]",
		"- [ ] Depends on: #1":                      "[]",
		"Depends on: https://example.com/#1":        "[]",
		"Depends on: #1\n\nText.\n\nDepends on: #2": "[#1 #2]",
	} {
		p, err := FromIssue("Title", body)
		if err != nil {
			t.Fatal(err)
		}
		if p.Stacked {
			t.Errorf("%q is stacked", body)
		}
		if got := fmt.Sprint(p.Waits); got != want {
			t.Errorf("%q waits for %s, want %s", body, got, want)
		}
	}
}

func TestStacked(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"Stacked: yes": true, "Text.\n\n- **Stacked:** true": true, "Stacked: no": false, "Stacked: yesterday": false,
		"> Stacked: yes": false, "They are stacked: yes": false,
	} {
		if p, err := FromIssue("Title", body); err != nil || p.Stacked != want {
			t.Errorf("%q: %v, %v", body, p.Stacked, err)
		}
	}
}
