package redact_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/redact"
)

// BenchmarkMask is what a stream costs that holds no secret: one long line of a
// model's words in JSON, and one of base64, under the secrets of a server.
func BenchmarkMask(b *testing.B) {
	var secrets []string
	for i := range 8 {
		secrets = append(secrets, fmt.Sprintf("sk-ant-api03-%02d", i)+noise(80), fmt.Sprintf("%dghs", i)+noise(36))
	}
	m := redact.New(secrets...)
	for name, unit := range map[string]string{
		"words":  `{\"type\":\"text\",\"text\":\"I will look at the flags of the program first, and at -----BEGIN, ghs_ and sk-ant- in it.\"} `,
		"base64": "iVBORw0KGgoAAAANSUhEUgAAAfQAAAH0CAYAAADL1t+KAAAABHNCSVQICAgIfAhkiAAAAAlwSFlzAAAPYQAAD2EBqD+naQ",
	} {
		text := []byte(strings.Repeat(unit, (4<<20)/len(unit)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				w := m.Writer(io.Discard)
				if _, err := w.Write(text); err != nil {
					b.Fatal(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+", found", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.FindKnown(b.Context(), text)
			}
		})
	}
}
