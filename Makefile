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

.PHONY: tour
tour: build ## Play docs/tour.md and take its pictures; installs a browser (Debian, as root)
	scripts/tour.sh

.PHONY: test
test: ## Run everything a change must pass; installs what it needs (Debian, as root)
	scripts/test.sh

.PHONY: test-kube
test-kube: ## Run the sandboxes of Kubernetes in a real cluster; the first time builds it (Debian, as root)
	scripts/test-kube.sh

.PHONY: unit
unit: ## Run what needs no root, no network and no service
	go test ./...
	@echo
	@echo "Left out: containers (-tags docker), agents (-tags claude, -tags clis), the race detector,"
	@echo "GitHub's own descriptions (RALPH_OPENAPI, RALPH_GRAPHQL_SCHEMA) and the linters."
	@echo "make test runs them all."

.PHONY: live-check
live-check: ## Find out on GitHub itself what docs/unverified.md lists; needs an App to throw away
	go test -tags live -count=1 -timeout 30m -run '^TestLive$$' -v ./internal/ghapp

.PHONY: lint
lint: ## Lint Go, shell, workflows and the words of documents, and check the linter's own borders
	scripts/lint.sh

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	scripts/fuzz.sh

.PHONY: soak
soak: SOAK ?= 30m
soak: ## Work on issues for SOAK (30m) while months pass, and see that nothing grows
	RALPH_TEST_SOAK=$(SOAK) go test ./cmd/bot -run '^TestSoak$$' -count=1 -timeout 0 -v

.PHONY: limits
limits: ## Try the limits in full size: a million files, 2 GB of requests, crowds, minutes of kills and outages
	RALPH_TEST_FULL=1 go test -v -count=1 -parallel 1 -run '^(TestHostile|TestNamesThatFold|TestLargestRequests|TestUnsignedBodies)' \
		./internal/gitrepo ./internal/gateway ./internal/handlers
	RALPH_TEST_FULL=1 go test -v -count=1 -parallel 1 -timeout 1h \
		-run '^(TestChaos|TestOneAmongMany|TestCrowdOfLabels|TestHangingEndpoint|TestGitHubIsAway|TestWebhooksComeFast)$$' ./cmd/bot

.PHONY: crash
crash: ## Kill a server at every step and at random, in full size
	RALPH_TEST_FULL=1 go test -v -count=1 -parallel 1 -timeout 2h -run '^(TestKilledAtEveryStep|TestChaos)$$' ./cmd/bot

.PHONY: bench
bench: ## Run the benchmarks, for BENCHTIME (1s) each
	scripts/bench.sh

.PHONY: sim
sim: ## Measure the loop with faulty agents; SEED, MIX (a file) and RUNS choose others
	go run ./cmd/bot sim $(if $(SEED),--seed $(SEED)) $(if $(MIX),--mix $(MIX)) $(if $(RUNS),--runs $(RUNS))

.PHONY: tools
tools: ## Install the pinned linters and test packages into .cache
	scripts/tools.sh lint
	scripts/tools.sh test

.PHONY: clean
clean: ## Remove what was built; .cache stays
	rm -rf bin
