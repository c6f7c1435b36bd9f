package spend

import (
	"fmt"
	"math"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// USD is an amount of money in billionths of a US dollar.
type USD int64

const dollar = 1_000_000_000

// Dollars turns dollars into USD, rounded up.
func Dollars(d float64) USD { return USD(math.Ceil(math.Round(d*dollar*1000) / 1000)) }

// Dollars is the amount as dollars.
func (u USD) Dollars() float64 { return float64(u) / dollar }

// String is the amount for a person.
func (u USD) String() string {
	if u != 0 && u > -dollar/100 && u < dollar/100 {
		return fmt.Sprintf("$%.4f", u.Dollars())
	}
	return fmt.Sprintf("$%.2f", u.Dollars())
}

// Tokens is what one request consumed. The kinds do not overlap: Input holds
// neither what was read from the provider's cache nor what was written to it.
type Tokens struct {
	Input, Output         int64
	CacheRead, CacheWrite int64
	// CacheWriteLong was written to be kept for an hour instead of minutes.
	CacheWriteLong int64
}

// Prices of requests follow two rules that price lists do not hold.
const (
	// longPrompt is the number of input tokens above which a request is counted at
	// longInput and longOutput times the list price: that is the providers' rule
	// for the models that have one (Gemini 2.5 Pro and 3 Pro, Claude Sonnet 4.5,
	// and GPT-5.4 from a little further on), and too much for the others.
	longPrompt            = 200_000
	longInput, longOutput = 2, 1.5
	// longCache is what tokens cost that Anthropic caches for an hour, as a
	// multiple of input.
	longCache = 2
)

// maxTokens bounds a count that is priced: far beyond any model, and small
// enough for its price to be counted.
const maxTokens = 1_000_000_000

// cost is rounded up, after what floating point adds by itself is taken off.
func cost(tokens int64, perMillion float64) USD {
	return USD(math.Ceil(float64(min(max(tokens, 0), maxTokens))*perMillion*(dollar/1_000_000) - 1e-3))
}

// CostOf is the price of one request.
func CostOf(p run.Price, t Tokens) USD {
	in, out := 1.0, 1.0
	if t.Input+t.CacheRead+t.CacheWrite+t.CacheWriteLong > longPrompt {
		in, out = longInput, longOutput
	}
	return cost(t.Input, p.Input*in) + cost(t.Output, p.Output*out) + cost(t.CacheRead, p.CacheRead*in) +
		cost(t.CacheWrite, p.CacheWrite*in) + cost(t.CacheWriteLong, max(p.CacheWrite, longCache*p.Input)*in)
}

// Match says whether a name fits a pattern: it is the same, or begins like a
// pattern that ends in *.
func Match(pattern, name string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return pattern == name || wild && strings.HasPrefix(name, prefix)
}
