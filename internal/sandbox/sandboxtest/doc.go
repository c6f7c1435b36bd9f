// Package sandboxtest is the suite that every implementation of
// sandbox.Sandbox must pass, run against the real thing: real processes, real
// engines. Confine is the part of it that is hostile.
package sandboxtest
