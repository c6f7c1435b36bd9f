package run

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Price is what a model's tokens cost, in dollars for a million of them.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64
}

// Cost is what u comes to, in dollars.
func (p Price) Cost(u Usage) float64 {
	const million = 1e6
	return (float64(u.InputTokens)*p.Input + float64(u.OutputTokens)*p.Output +
		float64(u.CacheReadTokens)*p.CacheRead + float64(u.CacheWriteTokens)*p.CacheWrite) / million
}

// Dollars is an amount as people and programs read it: sums of floating-point
// numbers have digits that nobody was charged, so it ends at a millionth.
func Dollars(usd float64) float64 {
	const millionth = 1e6
	return math.Round(usd*millionth) / millionth
}

// Prices are prices by model name.
type Prices map[string]Price

// versionSuffix ends the name of a dated or otherwise pinned version of a model,
// which costs what the model costs.
var versionSuffix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|latest|preview(-\d{2}-\d{2,4})?)$`)
})

// Of finds the price of a model. The name may carry a provider in front
// ("openai/gpt-5.5") and a date behind; a variant ("gpt-5.5-pro") is a model of
// its own, whose price is not guessed.
func (p Prices) Of(model string) (Price, bool) {
	if price, ok := p[model]; ok {
		return price, true
	}
	if i := strings.LastIndexByte(model, '/'); i >= 0 {
		model = model[i+1:]
	}
	if price, ok := p[model]; ok {
		return price, true
	}
	price, ok := p[versionSuffix().ReplaceAllString(model, "")]
	return price, ok
}

// With returns p with the prices of q, which win.
func (p Prices) With(q Prices) Prices {
	both := maps.Clone(p)
	if both == nil {
		both = Prices{}
	}
	maps.Copy(both, q)
	return both
}

// ParsePrice reads "input,output" or "input,output,cached input,cache write",
// in dollars per million tokens. Without the last two, tokens of the cache
// cost what input does: an unknown discount is not assumed. Its error is for a
// person.
func ParsePrice(s string) (Price, error) {
	parts := strings.Split(s, ",")
	if len(parts) != 2 && len(parts) != 4 {
		return Price{}, fmt.Errorf("%q is not a price; write input,output or input,output,cached,written in dollars "+
			"per million tokens", s)
	}
	var n [4]float64
	for i, part := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v >= 0 && v <= 1e6) {
			return Price{}, fmt.Errorf("%q is not a price in dollars", strings.TrimSpace(part))
		}
		n[i] = v
	}
	if len(parts) == 2 {
		n[2], n[3] = n[0], n[0]
	}
	return Price{Input: n[0], Output: n[1], CacheRead: n[2], CacheWrite: n[3]}, nil
}

// ListPrices are the providers' list prices, as their pricing pages gave them in
// mid-2026 (claude.com/pricing, platform.openai.com/docs/pricing,
// ai.google.dev/gemini-api/docs/pricing), for standard service and, where the
// price grows with the prompt, for the shorter prompts.
// Models that are not here have no known price.
func ListPrices() Prices {
	anthropic := func(in, out float64) Price {
		// Reading the cache costs a tenth, writing it for five minutes a quarter
		// more.
		return Price{Input: in, Output: out, CacheRead: in / 10, CacheWrite: in * 1.25}
	}
	cached := func(in, out float64) Price {
		// A cached prefix costs a tenth, keeping it nothing extra.
		return Price{Input: in, Output: out, CacheRead: in / 10, CacheWrite: in}
	}
	return Prices{
		"claude-opus-4-6":   anthropic(5, 25),
		"claude-opus-4-5":   anthropic(5, 25),
		"claude-opus-4-1":   anthropic(15, 75),
		"claude-sonnet-4-6": anthropic(3, 15),
		"claude-sonnet-4-5": anthropic(3, 15),
		"claude-haiku-4-5":  anthropic(1, 5),

		"gpt-5.5":           cached(5, 30),
		"gpt-5.4":           cached(2.5, 15),
		"gpt-5.4-mini":      cached(0.75, 4.5),
		"gpt-5.3-codex":     cached(1.75, 14),
		"gpt-5.2-codex":     cached(1.75, 14),
		"gpt-5.2":           cached(1.75, 14),
		"gpt-5.1-codex-max": cached(1.25, 10),
		"gpt-5.1-codex":     cached(1.25, 10),
		"gpt-5.1":           cached(1.25, 10),
		"gpt-5-codex":       cached(1.25, 10),
		"gpt-5":             cached(1.25, 10),
		"gpt-5-mini":        cached(0.25, 2),

		"gemini-3.5-flash":      cached(1.5, 9),
		"gemini-3.1-pro":        cached(2, 12),
		"gemini-3.1-flash-lite": cached(0.25, 1.5),
		"gemini-3-pro":          cached(2, 12),
		"gemini-3-flash":        cached(0.5, 3),
		"gemini-2.5-pro":        cached(1.25, 10),
		"gemini-2.5-flash":      cached(0.3, 2.5),
		"gemini-2.5-flash-lite": cached(0.1, 0.4),
	}
}

// Tokens is a number of tokens for people, short: "12k tokens".
func Tokens(n int64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1fM tokens", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%dk tokens", n/1000)
	}
	return fmt.Sprintf("%d tokens", n)
}
