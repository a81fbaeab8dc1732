# make up      a Slurm cluster in local pods, and a job on it
# make test    everything that must hold
# make help    the rest

include .ci/build.mk

SLURM   ?= 26.05

SANDBOX := bin/slurmlet-sandbox
FUZZ    ?= 60s
CHAOS   ?= 10m
NODES   ?= 125,500
E2E     := $(GO) test -tags e2e -count=1 -timeout $(if $(SLURMLET_E2E_FULL),6h,75m) -v
STEPS   ?= 100000
PODS    ?= 2000
RECORDS ?= 2000
WANTED  ?= 1000
WAITING ?= 500
QUEUED  ?= 1000
STARTS  ?= 100
EDITS   ?= 200
# The product's packages, for make cover.
COVER   ?= ./... ./controller/... ./kubectl-slurm/...
comma   := ,
space   := $(subst ,, )
# Small clusters of e2e, the longest first.
SMALL   := $(addprefix ./e2e/,native/containers native/queue native/elastic native/privatedirs native/gone native/hang native/edits native/cluster native/questions ships/monitoring native/crash native/ends native/peers native/stranger native/upgrade)
# The suite has a step that builds, before those that need it.
BUILT   ?= build
# The sandbox is built before the steps: it makes what others wait for. exec: a signal for make ends what runs
SUITE   := $(BUILD) -o bin/ ./e2e/testbed/suite ./e2e/testbed/slurmlet-sandbox && BUILT= exec bin/suite -make '$(MAKE)'
MUTATIONS ?= 1000

# pipefail is not in every sh.
SHELL := /bin/bash

.DEFAULT_GOAL := build
.PHONY: help build dev test test-full unit cover vuln e2e registry tools roots kernel node kubernetes workloads native limits kube e2e-kube controller charts images chaos scale steps edits oracle bench bench-controller bench-elastic bench-queue bench-starts short lint cases fuzz up down kube-up kube-down clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

build: bin/spank_slurmlet.so ## static binaries in bin/
	$(BUILD) -tags $(AGENT) -o bin/ ./cmd/slurmlet ./cmd/slurmlet-web ./cmd/slurmlet-container ./cmd/slurmlet-import
	$(BUILD) -o bin/ ./controller/cmd/slurmlet-controller ./kubectl-slurm ./e2e/testbed/slurmlet-sandbox

SPANK := internal/jobcontainer/spank
bin/spank_slurmlet.so: $(SPANK)/compile $(wildcard $(SPANK)/*.[ch]) # one file for every version of Slurm
	@mkdir -p $(@D)
	$< $(CC) $@

test: ## everything that must hold, in some 20 minutes (bin/test has the logs)
	$(SUITE)

test-full: ## every case on every version: hours
	export SLURMLET_E2E_FULL=1; $(SUITE)
	CGO_ENABLED=1 $(GO) test -race -run TestTorture ./internal/pod/pid1 -torture.full
	$(MAKE) oracle steps scale chaos fuzz
	$(E2E) ./e2e/apparmor
	SLURMLET_E2E_FULL=1 $(MAKE) e2e-kube SLURM=24.11
	SLURMLET_E2E_FULL=1 $(MAKE) e2e-kube SLURM=26.05

lint: $(LINT) ## gofumpt, and the rules of .golangci.yml, of which vet is one
	CGO_ENABLED=1 GOFLAGS="$(GOFLAGS) -race '-gcflags=$(PLAIN_K8S)'" $(RUN_LINT) ./... ./controller/... ./kubectl-slurm/...
	$(RUN_LINT) ./e2e/... ./e2e/testbed/... ./.ci/figures
	LINT=$(LINT) $(GO) test -count=1 -run TestLintRules ./e2e/papers

unit: ## tests that need nothing but this machine
	CGO_ENABLED=1 $(GO) test -race -gcflags='$(PLAIN_K8S)' -ldflags=-w -parallel 16 -timeout 45m ./... ./controller/... ./kubectl-slurm/... ./e2e/testbed/sandbox/... ./e2e/testbed/kubecluster/... ./e2e/testbed/slurmlet-sandbox/... ./e2e/testbed/suite ./e2e/testbed/pace ./e2e/testbed/chaos

cover: ## how much of each package all unit tests cover, the least first (bin/cover.txt; COVER=./internal/lifecycle/...); no part of make test
	@mkdir -p bin
	@$(GO) test -coverpkg='$(subst $(space),$(comma),$(COVER))' -coverprofile=bin/cover.out -gcflags='$(PLAIN_K8S)' $(COVER) >bin/cover.log 2>&1 || { grep -E '^(---|FAIL)' bin/cover.log; exit 1; }
	@.ci/coverage bin/cover.out | tee bin/cover.txt

# Its exit status is 3 if it finds one, and another where it cannot know.
vuln: $(GOVULNCHECK) ## known vulnerabilities of what the programs call: it asks Go's vulnerability database (VULNDB=file:///… is a copy); no part of make test
	@GOFLAGS= $(GOVULNCHECK) $(if $(VULNDB),-db '$(VULNDB)') ./cmd/... ./controller/cmd/... ./kubectl-slurm; code=$$?; \
		case $$code in 0 | 3) ;; *) echo "make vuln needs Go's vulnerability database, and nothing is known without it: VULNDB=file:///… names a copy" >&2 ;; esac; exit $$code

e2e: ## real Slurm in the sandbox, every version (SLURMLET_E2E_FULL=1: also what takes hours)
	$(SUITE) build roots native kernel limits

registry: $(DISTRIBUTION)

tools: $(HELM) $(UNTT) $(BUILDX) $(BUILDKITD) $(DISTRIBUTION)

roots: $(BUILT)
	$(SANDBOX) install -no-limits

kernel: $(BUILT)
	$(SANDBOX) install

node: $(BUILT)
	$(SANDBOX) install -node

kubernetes: $(BUILT)
	$(SANDBOX) install -kubernetes

workloads: $(BUILT)
	$(SANDBOX) install -workloads

native: $(BUILT) $(DISTRIBUTION) ## of e2e, what runs without limits, natively on every machine
	@mkdir -p bin/test; echo 'the small clusters run beside these: bin/test/small.log'
	@DISTRIBUTION=$(DISTRIBUTION) $(E2E) -p 3 -parallel 4 $(SMALL) >bin/test/small.log 2>&1 & \
		small=$$!; $(E2E) -parallel 10 -skip 'TestLimits|TestUpAndDown' ./e2e; code=$$?; \
		wait $$small || code=1; cat bin/test/small.log; exit $$code

limits: $(BUILT) ## of e2e, what needs cgroup v2: in User-Mode Linux where the machine has v1
	SLURMLET_SANDBOX_TEST=$(CURDIR)/$(SANDBOX) $(GO) test -count=1 -run Real -v ./e2e/testbed/sandbox
	$(E2E) -parallel 3 -run 'TestLimits|TestUpAndDown' ./e2e

charts: $(HELM) $(UNTT) $(BUILDX) ## the charts, the images' definition and the papers (UPDATE=1 writes the chart's README and dashboards)
	# one by one: values of the first would be the second's, too
	$(HELM) lint --strict --quiet --set image.registry=registry.example/slurmlet charts/slurm
	$(HELM) lint --strict --quiet --set image.registry=registry.example/slurmlet charts/slurmlet
	$(UNTT) charts/slurm charts/slurmlet
	HELM=$(HELM) BUILDX=$(BUILDX) $(GO) test -count=1 -timeout 45m ./e2e/ships/charts ./e2e/ships/krew ./e2e/ships/dashboards ./e2e/ships/monitoring ./e2e/ships/images ./e2e/papers ./controller/internal/inject

images: $(BUILT) $(BUILDX) $(BUILDKITD) ## every image of docker-bake.hcl as an OCI archive in bin/images, without Docker
	install -D -t bin/images/linux_$$($(GO) env GOARCH) $(addprefix bin/,slurmlet slurmlet-web slurmlet-controller slurmlet-container slurmlet-import spank_slurmlet.so)
	$(GO) run ./e2e/ships/images -pyxis -buildx $(BUILDX) -buildkitd $(BUILDKITD) -cache $(CACHE)/buildkit

e2e-kube: build images $(HELM) $(DISTRIBUTION) ## the charts on real Kubernetes, and what happens to them (SLURM=24.11 or 26.05)
	HELM=$(HELM) DISTRIBUTION=$(DISTRIBUTION) SLURM=$(SLURM) $(GO) test -tags e2e -count=1 -timeout $(if $(SLURMLET_E2E_FULL),150m,100m) -v ./e2e/kube

edits: build images $(HELM) ## how soon EDITS=200 edits of a ConfigMap are live on real Kubernetes, half of them under load (SLURM=24.11 or 26.05)
	HELM=$(HELM) SLURM=$(SLURM) $(GO) test -tags e2e -count=1 -timeout 100m -v -run TestEdits ./e2e/kube -edits $(EDITS)

kube: $(BUILT) $(HELM) $(DISTRIBUTION) ## of e2e-kube, one whole install of both charts: kubectl slurm, Prometheus, jobs, an image without slurmlet, a pod deleted under a job, uninstall, and five people with ssh, accounting and REST
	HELM=$(HELM) DISTRIBUTION=$(DISTRIBUTION) SLURM=$(SLURM) $(GO) test -tags e2e -count=1 -timeout 55m -v ./e2e/kube \
		-run 'TestKube/(the_controller_is|the_chart_is_(installed,_and|uninstalled)|kubectl_slurm_shows|a_real_Prometheus|a_plain_image|a_pod_with_a_job|accounting_and|five_people)'

controller: $(BUILT) $(HELM) ## the controller with real etcd and kube-apiserver: names, tokens, outages
	HELM=$(HELM) $(GO) test -tags e2e -count=1 -parallel 3 -timeout $(if $(SLURMLET_E2E_FULL),4h,38m) -v ./e2e/controller

bench-controller: build $(HELM) ## what PODS=2000 pods and as many agents cost the controller and kube-apiserver
	HELM=$(HELM) $(GO) test -tags e2e -count=1 -timeout 20m -v -run TestBench ./e2e/controller -pods $(PODS)

bench-elastic: build $(HELM) ## what RECORDS=2000 elastic nodes cost, WANTED=1000 of them at once, and WAITING=500 jobs: slurmctld, its agent, the controller, kube-apiserver
	HELM=$(HELM) $(GO) test -tags e2e -count=1 -timeout 20m -v -run TestElasticBench ./e2e/controller -records $(RECORDS) -wanted $(WANTED) -waiting $(WAITING)

bench-queue: build $(HELM) ## what QUEUED=1000 pods in Slurm's queue cost: the controller and kube-apiserver on as many nodes, and a real slurmctld on four
	HELM=$(HELM) $(GO) test -tags e2e -count=1 -timeout 4h -v -run 'TestQueueBench|TestQueue/26.05/many_pods' ./e2e/controller -queued $(QUEUED)

bench-starts: build images $(HELM) ## how long STARTS=100 pods take from Slurm's grant to the start of their container on real Kubernetes, beside the same pods without Slurm (SLURM=24.11 or 26.05)
	HELM=$(HELM) SLURM=$(SLURM) $(GO) test -tags e2e -count=1 -timeout 60m -v -run TestStarts ./e2e/kube -starts $(STARTS)

chaos: build ## jobs while pods, daemons and cables fail, also over an elastic set (CHAOS=10m, SLURMLET_CHAOS_SEED=n repeats one)
	SLURMLET_CHAOS_TIME=$(CHAOS) $(GO) test -tags e2e -count=1 -timeout 2h -v -run TestChaos ./e2e ./e2e/native/elastic

scale: build ## what many nodes cost slurmctld: starts, edits, restarts, mass ends, natively (NODES=125,500, ARGS='-do edit' or '-simulated 10000')
	$(GO) run ./e2e/figures/scale -nodes $(NODES) $(ARGS)

steps: build ## 100,000 job steps on one node, and what its agent keeps of them (STEPS=100000)
	$(GO) run ./e2e/figures/steps -steps $(STEPS)

oracle: ## what slurmlet check says beside what real Slurm does: all cases, and MUTATIONS=1000 (ARGS='-seed 1 -run name')
	$(GO) run ./e2e/oracle -mutations $(MUTATIONS) $(ARGS)

bench: build $(DISTRIBUTION) ## figures side by side with tini, supervisord and bare slurmd; what scrapers, 10,000 nodes and 10,000 jobs cost slurmctld
	$(GO) test -run '^$$' -bench . -benchmem ./agent/... ./cgroup/... ./internal/... ./slurmconf/...
	$(GO) run ./e2e/figures/bench
	set -o pipefail; $(GO) test -tags e2e -count=1 -v -run 'TestCluster|TestCost' ./e2e/native/cluster -cost | grep -E '^(ok|FAIL|--- FAIL)|^ +--- |scrapers,|slurmctld +[0-9]'
	set -o pipefail; DISTRIBUTION=$(DISTRIBUTION) $(GO) test -tags e2e -count=1 -v -run TestContainers ./e2e/native/containers -cost | grep -E '^(ok|FAIL|--- FAIL|Slurm|  )'
	$(SANDBOX) install
	set -o pipefail; $(GO) test -tags e2e -count=1 -parallel 1 -v -run 'TestLimits/.*/a_pod_resized_in_place' ./e2e | grep -E '^ +--- .*/a_pod|resized to|FAIL'

short: $(BUILT) ## short forms of bench, scale and steps, so that they work when they are wanted
	$(GO) run ./e2e/figures/bench -short
	$(GO) run ./e2e/figures/scale -nodes 8 -jobs 2 -do idle,hold,drain -idle 2s -hold 2s -slurm $(SLURM)
	$(GO) run ./e2e/figures/scale -simulated 100 -do edit,ends -slurm $(SLURM)
	$(GO) run ./e2e/figures/steps -steps 2000 -run 5

cases: ## every test and case, with the target that runs it; runs none (TARGETS='native limits')
	@$(GO) run ./e2e/papers/cases -make '$(MAKE)' $(TARGETS)

fuzz: ## every fuzz target for FUZZ=60s
	@for package in $$($(GO) list ./... ./controller/... ./kubectl-slurm/... ./e2e/... ./e2e/testbed/...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep ^Fuzz); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ) -fuzzminimizetime 10x $$package || exit 1; \
		done; \
	done

up: build ## a Slurm cluster in local pods (SLURM=24.11 or 26.05; LIMITS=no needs no kernel)
	$(SANDBOX) up -slurm $(SLURM) $(if $(filter no,$(LIMITS)),-no-limits)

dev: ## a changed agent into the running sandbox: its containers start anew with it (PODS="node-0 login")
	$(BUILD) -o bin/ ./cmd/slurmlet
	@for pod in $${PODS:-$$($(SANDBOX) status | awk '$$2 ~ /^(slurm|login)/ && $$1 !~ /^elastic/ { print $$1 }')}; do $(SANDBOX) restart "$$pod" || exit 1; done

down: build ## end it, and leave nothing
	$(SANDBOX) down

kube-up: build images $(HELM) ## Kubernetes of real parts with both charts on it, and a job (SLURM=24.11 or 26.05)
	@ln -sf $(HELM) bin/helm
	@set --; for image in bin/images/agent.tar bin/images/controller.tar bin/images/*-$(subst .,-,$(SLURM)).tar; do set -- "$$@" -image "$$image"; done; $(SANDBOX) kube-up "$$@" >/dev/null
	eval "$$($(SANDBOX) kube-env)"; \
		helm install slurmlet charts/slurmlet -n slurmlet --create-namespace -f e2e/kube/controller.yaml --wait --timeout 10m && \
		helm install slurm charts/slurm -f e2e/kube/values.yaml --set image.slurm=$(SLURM) --wait --timeout 10m && \
		kubectl exec slurm-login-0 -- sinfo && \
		kubectl exec slurm-login-0 -- srun -N2 hostname
	@printf '\nkubectl and helm use it in a shell after\n\n    eval $$(bin/slurmlet-sandbox kube-env)\n\nmake kube-down ends it.\n'

kube-down: build ## end it, and leave nothing
	$(SANDBOX) kube-down

# What a release is built with: KEY is cosign's, BUILDER the URI of who builds, DOWNLOAD the URL of the
# directory that will have the files, and AMD64 and ARM64 are the images of docker-bake.hcl for each architecture.
KEY     ?=
REGISTRY ?=
BUILDER ?= urn:slurmlet:make-release
DOWNLOAD ?=
AMD64   ?= default
ARM64   ?= default
RELEASED := $(HELM) $(COSIGN) $(DISTRIBUTION) $(BUILDX) $(BUILDKITD)
.PHONY: release release-build release-tools release-sign release-push release-test hooks web

release: $(RELEASED) ## images, charts, programs, SBOMs and provenance of a tag, signed (VERSION=v0.1.0 KEY=… REGISTRY=…)
	@test -n '$(KEY)' || { echo 'want a key that signs: KEY=cosign.key; cosign generate-key-pair makes one' >&2; exit 1; }
	$(MAKE) release-build
	$(MAKE) release-sign

release-build: $(HELM) $(BUILDX) $(BUILDKITD) ## of make release, all but the signatures: no key is needed
	$(GO) run ./e2e/ships/release build -version '$(VERSION)' -registry '$(REGISTRY)' -builder '$(BUILDER)' -download '$(DOWNLOAD)' \
		-amd64 '$(AMD64)' -arm64 '$(ARM64)' -helm $(HELM) -buildx $(BUILDX) -buildkitd $(BUILDKITD) -cache $(CACHE)/buildkit

release-tools: $(COSIGN) $(DISTRIBUTION) # so that make release-sign compiles nothing of others with the key beside it
	$(GO) build -o /dev/null ./e2e/ships/release

release-sign: $(COSIGN) $(DISTRIBUTION) ## signs what make release-build has left, if it is whole (VERSION=v0.1.0 KEY=… REGISTRY=…)
	$(GO) run ./e2e/ships/release sign -version '$(VERSION)' -registry '$(REGISTRY)' -key '$(KEY)' -cosign $(COSIGN) -distribution $(DISTRIBUTION)

release-push: ## what make release has built to the registry (VERSION=v0.1.0 REGISTRY=…)
	$(GO) run ./e2e/ships/release push -version '$(VERSION)' -registry '$(REGISTRY)'

release-test: $(RELEASED) ## a release of HEAD, pushed to a real registry here, pulled, verified and run
	HELM=$(HELM) COSIGN=$(COSIGN) DISTRIBUTION=$(DISTRIBUTION) BUILDX=$(BUILDX) BUILDKITD=$(BUILDKITD) BUILDKIT_CACHE=$(CACHE)/buildkit \
		$(GO) test -tags e2e -count=1 -timeout 60m -v ./e2e/ships/release

web: ## the status page in Debian's chromium, with screenshots in bin/web
	@command -v chromium >/dev/null || apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core
	$(GO) test -tags e2e -count=1 -timeout 20m -v -run 'TestBrowser|TestScreenReader' ./internal/page/webpage

hooks: $(ACTIONLINT) ## the GitHub Action, the pre-commit hook and the workflows, as far as they go without GitHub
	ACTIONLINT=$(ACTIONLINT) $(GO) test -tags e2e -count=1 -v ./e2e/ships/hooks

clean: ## remove bin/; the caches in ~/.cache/slurmlet stay
	rm -rf bin
