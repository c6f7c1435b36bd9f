// Command bot is Ralph Bot: a GitHub App, a GitHub Action and a command line that
// run the same loop.
//
// # A tour of the code
//
// Start with package run: it names what everybody talks about, a run, its
// tasks, and the ways it may end. Package progress reads, edits and judges
// progress.md, the memory of a run; package plan makes tasks of an issue or a
// file, and package prompt says to an agent what is wanted of it.
//
// Package loop is the heart: Engine.Step takes a run one transition further
// over a persisted State and says what comes next. It is pure; what it needs of
// the world it declares as interfaces (ports.go). Read step.go from open to
// end, then verify.go (what an agent left behind, and what of it counts) and
// gates.go (the checks a proposal has to pass). Package gate judges what those
// checks say.
//
// Package host implements those interfaces on the world: gitrepo exports work
// trees and reads them back without ever trusting them, sandbox (local, docker)
// runs agents and checks under the shim, agent knows the agents' command lines
// and streams, gateway keeps the model key out of their reach. Package spend says
// what a request may cost, egress which hosts may be reached, proc starts every
// process of our own, and redact masks secrets in all that is shown or kept.
//
// Three doors drive the loop, and keep its state in package store. Package inline
// runs it to the end in this process (`bot run`). The App takes it in ticks: handlers
// verifies and stores webhooks, queue makes them durable, delivery works them, says who may
// have that done and makes up for webhooks that did not arrive. reconcile steps the runs
// and makes tasks of what people say of their work; review reads their words. publish
// shows a run: it turns trees into signed commits and state into a description,
// effects makes each of those happen once, and ghapp is the only package that talks to
// GitHub. The Action is the App for one event: action works it.
//
// Package config reads the configuration of a server, of a repository and of a
// person.
// Package appsetup is behind `bot setup`, which makes the App in the first place.
//
// Package notify hears the same events as the terminal, and tells people
// elsewhere; analytics keeps them as data, and transcript what agents were told,
// did and said.
//
// Package ghsim is a GitHub in one process; `bot demo`, `bot ghsim` and the
// tests run on it.
//
// The files of this package hold one sub-command each: flags in, wiring, exit
// code out. main.go is where it begins; docs/architecture.md draws the map.
package main
