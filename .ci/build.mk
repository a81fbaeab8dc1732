# How everything is built: which Go, its flags, and the programs of others, which modules in .ci pin.

CACHE   ?= $(or $(SLURMLET_CACHE),$(HOME)/.cache/slurmlet)
GO      := $(shell .ci/bootstrap)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

ifeq ($(GO),)
$(error .ci/bootstrap found no Go: see above)
endif

export SLURMLET_CACHE := $(CACHE)
# A clone elsewhere finds in Go's cache what this one has compiled. vet is a part of lint. What is built is stripped, so
# the compiler makes no DWARF, a tenth of its work.
FLAGS   := -trimpath -vet=off -gcflags=all=-dwarf=false -toolexec=$(CURDIR)/.ci/compile
export GOFLAGS := $(filter-out $(FLAGS),$(GOFLAGS)) $(FLAGS)
# Whatever needs no cgo goes without it, so that Go's cache has each dependency once: -race needs it.
export CGO_ENABLED := 0
export PATH := $(dir $(GO)):$(PATH)
BUILD   := $(GO) build -ldflags '-s -w -X main.version=$(VERSION)'
# The agent and the page speak HTTP/1.1 alone, so they have no HTTP/2 of net/http's: 0.57 MB.
AGENT   := nethttpomithttp2
# pinned: the name of what a module in .ci is built to; it changes with its versions and with ours of Go
pinned   = $(CACHE)/tools/$(1)-$(shell { cat .ci/$(2)/go.sum $(wildcard .ci/$(2)/*/*.go); grep -E '^(go|toolchain) ' go.mod; } | sha256sum | cut -c1-12)
LINT    := $(call pinned,golangci-lint,lint)
HELM    := $(call pinned,helm,tools)
UNTT    := $(call pinned,helm-unittest,tools)
BUILDX  := $(call pinned,buildx,tools)
BUILDKITD := $(call pinned,buildkitd,tools)
COSIGN  := $(call pinned,cosign,cosign)
DISTRIBUTION := $(call pinned,registry,tools)
ACTIONLINT := $(call pinned,actionlint,actionlint)
GOVULNCHECK := $(call pinned,govulncheck,vuln)
# The linters read what the compiler exports: of the first packages, as make unit has them compiled.
RUN_LINT = GOGC=400 GOMEMLIMIT=4GiB $(LINT) run --allow-parallel-runners

$(LINT): MODULE = lint
$(COSIGN): MODULE = cosign
$(ACTIONLINT): MODULE = actionlint
$(GOVULNCHECK): MODULE = vuln
$(LINT) $(COSIGN) $(ACTIONLINT) $(GOVULNCHECK): PROGRAM = tool
$(HELM): PROGRAM = helm.sh/helm/v4/cmd/helm
$(UNTT): PROGRAM = github.com/helm-unittest/helm-unittest/cmd/helm-unittest
$(BUILDX): PROGRAM = github.com/docker/buildx/cmd/buildx
$(BUILDKITD): PROGRAM = github.com/moby/buildkit/cmd/buildkitd
$(DISTRIBUTION): PROGRAM = ./registry
$(HELM) $(UNTT) $(BUILDX) $(BUILDKITD) $(DISTRIBUTION): MODULE = tools
# Of these, what no other build shares is compiled without inlining.
$(HELM) $(UNTT) $(BUILDX) $(BUILDKITD) $(DISTRIBUTION): PLAIN = $(addprefix github.com/,moby docker aws Azure open-policy-agent compose-spec lestrrat-go sigstore tetratelabs redis distribution) helm.sh
$(LINT) $(HELM) $(UNTT) $(BUILDX) $(BUILDKITD) $(COSIGN) $(DISTRIBUTION) $(ACTIONLINT) $(GOVULNCHECK):
	@echo "builds $(@F), pinned in .ci/$(MODULE) (some minutes, once)"
	@GOWORK=off $(GO) -C .ci/$(MODULE) build -trimpath $(PLAIN:%=-gcflags='%/...=-dwarf=false -l') -ldflags '-s -w' -o $@ $(PROGRAM)

# Kubernetes' libraries are compiled for -race without inlining (-l), a fifth of their work.
PLAIN_K8S := k8s.io/...=-dwarf=false -l
