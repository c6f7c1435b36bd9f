// Package sandboxtest is the suite that every implementation of
// sandbox.Sandbox must pass, run against the real thing: real processes, real
// engines.
package sandboxtest
