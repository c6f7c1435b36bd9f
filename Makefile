# What people type. The work is done by scripts/, each of which says what it does.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/bot, a static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/bot ./cmd/bot

.PHONY: demo
demo: build ## Watch an issue become a pull request: no key, no account
	bin/bot demo

.PHONY: test
test: ## Run what a change must pass; installs what it needs (Debian, as root)
	scripts/test.sh

.PHONY: test-all
test-all: ## Run that and every longer suite: all agents and containers, act, a release, kills, limits
	scripts/test.sh all

.PHONY: unit
unit: ## Run what needs no root, no network and no service
	go test ./...

.PHONY: live-check
live-check: ## Find out on GitHub itself what docs/security.md lists; needs an App to throw away
	go test -tags live -count=1 -timeout 30m -run '^TestLive$$' -v ./internal/ghapp

.PHONY: lint
lint: ## Lint Go, shell and workflows
	scripts/lint.sh

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	scripts/fuzz.sh

.PHONY: crash
crash: ## Kill servers at every step and at random while GitHub fails; RALPH_TEST_SEED chooses the dice
	go test -v -tags crash -count=1 -parallel 1 -timeout 2h ./cmd/bot \
		-run '^(TestKilledAtEveryStep|TestClockThatJumps|TestChaos)$$'
	RALPH_TEST_FULL=1 go test -count=1 -timeout 1h -run '^TestSchedules$$' ./internal/loop

.PHONY: load
load: SOAK ?= 10m
load: ## Measure limits, memory and, for SOAK (10m), growth; on a machine that does nothing else
	go test -tags load -count=1 -parallel 1 -timeout 1h ./internal/agent ./internal/gate ./internal/gateway \
		./internal/gitrepo ./internal/handlers
	RALPH_TEST_SOAK=$(SOAK) go test -v -tags load -count=1 -parallel 1 -timeout 2h ./cmd/bot \
		-run '^(TestSoak|TestGitHubIsAway|TestWebhooksComeFast|TestManyRunsWrite)$$'

.PHONY: seeds
seeds: SEED ?= $(shell date +%s)
seeds: ## Try properties on values that SEED (the time) draws
	@echo "SEED=$(SEED)"
	go test -count=1 $(shell grep -rl pgregory.net/rapid --include=*_test.go internal | xargs -n1 dirname | sort -u | sed 's,^,./,') \
		-rapid.seed=$(SEED)

.PHONY: bench
bench: ## Run the benchmarks, for BENCHTIME (1s) each
	scripts/bench.sh

.PHONY: sim
sim: SEED ?= $(shell date +%s)
sim: RUNS ?= 20
sim: ## Measure the loop with faulty agents that SEED (the time) draws, RUNS (20) times as many as the gate has for a seed
	@echo "SEED=$(SEED) RUNS=$(RUNS)"
	RALPH_TEST_SEED=$(SEED) RALPH_TEST_RUNS=$(RUNS) go test -v -count=1 -timeout 1h -run '^TestSimulation$$' ./internal/loop

.PHONY: tools
tools: ## Install the pinned linters and test packages, once for the machine
	scripts/tools.sh lint
	scripts/tools.sh test

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
