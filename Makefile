# make up      a Slurm cluster in local pods, and a job on it
# make test    everything that must hold
# make help    the rest

CACHE   ?= $(or $(SLURMLET_CACHE),$(HOME)/.cache/slurmlet)
GO      := $(shell .ci/bootstrap)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
SLURM   ?= 24.11

ifeq ($(GO),)
$(error .ci/bootstrap found no Go: see above)
endif

export SLURMLET_CACHE := $(CACHE)
export PATH := $(dir $(GO)):$(PATH)
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'
LINT    := $(CACHE)/tools/golangci-lint-$(shell { cat .ci/lint/go.sum; grep -E '^(go|toolchain) ' go.mod; } | sha256sum | cut -c1-12)
SANDBOX := bin/slurmlet-sandbox
FUZZ    ?= 60s
CHAOS   ?= 10m

.DEFAULT_GOAL := build
.PHONY: help build test unit e2e chaos bench lint fuzz up down clean

help: ## this list
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

build: ## static binaries in bin/
	$(BUILD) -o bin/ ./cmd/slurmlet ./cmd/slurmlet-sandbox

test: lint unit e2e ## everything that must hold

lint: $(LINT) ## gofumpt, vet and the rules of .golangci.yml
	$(GO) vet ./...
	$(LINT) run

$(LINT):
	@echo "builds golangci-lint, pinned in .ci/lint (some minutes, once)"
	$(GO) -C .ci/lint build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

unit: ## tests that need nothing but this machine
	$(GO) test -race ./agent/... ./cgroup/... ./cmd/... ./internal/... ./slurmconf/...

e2e: build ## real Slurm in the sandbox, every version
	$(SANDBOX) install
	SLURMLET_SANDBOX_TEST=$(CURDIR)/$(SANDBOX) $(GO) test -count=1 -run Real -v ./internal/sandbox
	$(GO) test -tags e2e -count=1 -timeout 45m -v ./e2e

chaos: build ## jobs while pods, daemons and cables fail (CHAOS=10m, SLURMLET_CHAOS_SEED=n repeats one)
	SLURMLET_CHAOS_TIME=$(CHAOS) $(GO) test -tags e2e -count=1 -timeout 2h -v -run TestChaos ./e2e

bench: build ## figures side by side with tini, supervisord and bare slurmd
	$(GO) test -run '^$$' -bench . -benchmem ./agent/... ./cgroup/... ./internal/... ./slurmconf/...
	$(GO) run ./e2e/bench

fuzz: ## every fuzz target for FUZZ=60s
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep ^Fuzz); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ) $$package || exit 1; \
		done; \
	done

up: build ## a Slurm cluster in local pods (SLURM=24.11 or 26.05)
	$(SANDBOX) up -slurm $(SLURM)

down: build ## end it, and leave nothing
	$(SANDBOX) down

clean: ## remove bin/; the caches in ~/.cache/slurmlet stay
	rm -rf bin
