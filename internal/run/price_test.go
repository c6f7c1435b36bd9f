package run_test

import (
	"math"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

func TestPriceOfAModel(t *testing.T) {
	t.Parallel()
	prices := run.ListPrices()
	tests := []struct {
		model string
		known bool
		like  string // the entry it is priced as
	}{
		{"gpt-5.5", true, "gpt-5.5"},
		{"openai/gpt-5.5", true, "gpt-5.5"},
		{"gpt-5.5-2026-04-23", true, "gpt-5.5"},
		{"claude-sonnet-4-5-20250929", true, "claude-sonnet-4-5"},
		{"gemini-2.5-pro-preview-06-05", true, "gemini-2.5-pro"},
		{"gemini-3-pro-preview", true, "gemini-3-pro"},
		{"gpt-5.5-pro", false, ""},
		{"gpt-5.5x", false, ""},
		{"gpt-5.5-2026-04-23-pro", false, ""},
		{"sonnet", false, ""},
		{"", false, ""},
	}
	for _, tt := range tests {
		got, ok := prices.Of(tt.model)
		if ok != tt.known || got != prices[tt.like] {
			t.Errorf("Of(%q) = %+v, %v", tt.model, got, ok)
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	p := run.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	u := run.Usage{InputTokens: 1_000_000, OutputTokens: 200_000, CacheReadTokens: 10_000_000, CacheWriteTokens: 400_000}
	if got := p.Cost(u); math.Abs(got-(3+3+3+1.5)) > 1e-9 {
		t.Errorf("cost %f", got)
	}
}

func TestParsePrice(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]run.Price{
		"1.25,10":           {Input: 1.25, Output: 10, CacheRead: 1.25, CacheWrite: 1.25},
		" 3, 15, 0.3, 3.75": {Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		"0,0":               {},
	} {
		if got, err := run.ParsePrice(in); err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "3", "3,15,1", "a,b", "-1,2", "NaN,1", "1,Inf", "1e300,1", "1,2,3,4,5"} {
		if got, err := run.ParsePrice(in); err == nil {
			t.Errorf("%q was read as %+v", in, got)
		}
	}
}

func TestOwnPricesWin(t *testing.T) {
	t.Parallel()
	list := run.ListPrices()
	own := run.Prices{"gpt-5.5": {Input: 1}, "house-model": {Output: 2}}
	both := list.With(own)
	if both["gpt-5.5"] != own["gpt-5.5"] || both["house-model"] != own["house-model"] || both["gpt-5"] != list["gpt-5"] {
		t.Errorf("%+v", both)
	}
	if list["gpt-5.5"] == own["gpt-5.5"] {
		t.Error("the list itself was changed")
	}
}
