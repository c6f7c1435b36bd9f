package config

import (
	"fmt"

	"github.com/org/ralph-action/internal/run"
)

// priceFile is the price of a model as it is written, in dollars for a million
// tokens.
type priceFile struct {
	Model      string   `yaml:"model"`
	Input      *float64 `yaml:"input"`
	Output     *float64 `yaml:"output"`
	CacheRead  *float64 `yaml:"cache_read"`
	CacheWrite *float64 `yaml:"cache_write"`
}

const (
	maxPrices = 200
	maxPrice  = 1_000_000
)

// prices checks what a file says. What it does not say of the cache costs what
// input does.
func prices(files []priceFile, report reporter) run.Prices {
	if len(files) > maxPrices {
		report("$.model.prices", "%d prices; at most %d are allowed", len(files), maxPrices)
		return nil
	}
	var out run.Prices
	for i, f := range files {
		at := func(name string) string { return fmt.Sprintf("$.model.prices[%d].%s", i, name) }
		amount := func(name string, v *float64, otherwise *float64) float64 {
			if v == nil {
				v = otherwise
			}
			switch {
			case v == nil:
				report(at(name), "must be given, in dollars per million tokens")
				return 0
			case !(*v >= 0 && *v <= maxPrice): // NaN too
				report(at(name), "must be between 0 and %d dollars per million tokens", maxPrice)
				return 0
			}
			return *v
		}
		if !run.IsModelName(f.Model) {
			report(at("model"), "%q does not look like the name of a model", clip(f.Model))
			continue
		}
		if _, twice := out[f.Model]; twice {
			report(at("model"), "the price of %q is set twice", f.Model)
		}
		if out == nil {
			out = run.Prices{}
		}
		p := run.Price{Input: amount("input", f.Input, nil), Output: amount("output", f.Output, nil)}
		p.CacheRead, p.CacheWrite = amount("cache_read", f.CacheRead, &p.Input), amount("cache_write", f.CacheWrite, &p.Input)
		out[f.Model] = p
	}
	return out
}
