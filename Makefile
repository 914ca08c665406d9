# Two commands do all the set-up: `make demo` and `make test`. The rest is for
# people who change the project. Everything is built from Go alone, except what
# `make test-all` says that it needs.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   = -s -w -X main.version=$(VERSION)
GOFLAGS_R = -trimpath -buildvcs=false
GO       ?= go

# Tools, pinned. They are run from the module cache and are not in go.mod.
GOFUMPT     = $(GO) run mvdan.cc/gofumpt@v0.12.0
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/handoff, static, without cgo
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_R) -ldflags '$(LDFLAGS)' -o bin/handoff ./cmd/handoff

.PHONY: examples
examples: ## build the programs that the examples run
	@for a in delivery writer csv-summary inventory; do $(GO) build -o examples/$$a/bin/$$a-agent ./examples/$$a/agent || exit 1; done
	@$(GO) build -o examples/mcp-backend/bin/mcp-backend-server ./examples/mcp-backend/server
	@$(GO) build -o examples/model/bin/stock-server ./examples/mcp-backend/server
	@$(GO) build -o examples/model/bin/scripted-model ./examples/model/scripted
	@mkdir -p examples/procurement/bin && $(GO) build -o examples/procurement/bin/ ./examples/procurement/...

.PHONY: demo
demo: ## see a purchase by three agents, and answer the next question yourself: make demo DEMO=--break
	@test -x bin/handoff || echo "Building bin/handoff. The first time takes a minute or two."
	@$(MAKE) -s build
	@bin/handoff demo $(DEMO)

.PHONY: test
test: ## run the tests that need Go alone
	$(GO) vet ./...
	$(GO) test -timeout 10m ./...

.PHONY: test-all
test-all: lint generated race postgres interop interop-mcp browser deploy chaos-quick test-cluster cross ## everything; needs root and what docs/testing.md names, and fails where a part is missing

# Without GORACE each program that a test starts would wait a second before it ends. The
# engine of SQLite, which is C made Go, is not watched: that takes most of the time.
.PHONY: race
race: ## run the tests with the race detector
	GORACE=atexit_sleep_ms=0 $(GO) test -race -gcflags=modernc.org/sqlite/lib=-race=false -timeout 20m ./...

.PHONY: postgres
postgres: ## run the tests that need PostgreSQL; needs the server's programs, and jq, openssl and nginx for the commands of the documents
	$(GO) test -tags postgres -timeout 10m . ./cmd/handoff ./internal/bridge ./internal/bus/... ./internal/engine ./internal/ledger ./internal/store/...

.PHONY: deploy
deploy: build ## check the deployment files; needs root, systemd, PostgreSQL, openssl and promtool
	$(MAKE) -C deploy check

.PHONY: interop
interop: build ## talk to the official clients, Go and JavaScript
	$(MAKE) -C interop test
	$(MAKE) -C interop/cards test

.PHONY: interop-mcp
interop-mcp: build ## run the conformance suite of MCP and its official clients against the gateway for tools
	$(MAKE) -C interop/mcp test

.PHONY: browser
browser: ## look at the console and the chat page in Chromium; leaves pictures in dist/screenshots
	@mkdir -p dist/screenshots
	HANDOFF_SHOTS=$(CURDIR)/dist/screenshots $(GO) test -tags browser -timeout 10m ./browser ./internal/chat

.PHONY: chaos-quick
chaos-quick: build ## a few seeded kills of a server under load, and of nodes that delegate
	$(GO) run ./chaos -kills 5 -seed 1
	$(GO) run ./chaos -delegations -kills 10 -seed 1

.PHONY: test-cluster
test-cluster: build ## harm three nodes, PostgreSQL and NATS in network namespaces, two faults of each kind; needs root
	$(GO) run ./chaos -cluster -faults 2 -seed 1

.PHONY: chaos
chaos: build ## the full count of kills and of faults; writes docs/chaos.md, docs/delegation-chaos.md and docs/cluster-chaos.md
	$(GO) run ./chaos -kills 100 -seed 1 -report docs/chaos.md
	$(GO) run ./chaos -delegations -kills 200 -seed 1 -report docs/delegation-chaos.md
	$(GO) run ./chaos -cluster -faults 20 -seed 1 -report docs/cluster-chaos.md

.PHONY: bench
bench: build ## compare with a2a-go side by side; writes bench/results.json
	cd bench && $(GO) run .

.PHONY: fuzz
fuzz: ## run every fuzzer for FUZZTIME each
	./.ci/fuzz $(FUZZTIME)

.PHONY: lint
lint: ## vet, staticcheck, gofumpt
	$(GO) vet -tags postgres,browser ./...
	$(STATICCHECK) -tags postgres,browser ./...
	@files=$$($(GOFUMPT) -l .); if [ -n "$$files" ]; then echo "not formatted, run make fmt:"; echo "$$files"; exit 1; fi

.PHONY: vuln
vuln: ## look for known vulnerabilities; needs the Go vulnerability database
	$(GOVULNCHECK) ./...

.PHONY: site
site: ## make a site of the documents in dist/site
	@$(GO) run ./docs/site -o dist/site

.PHONY: fmt
fmt: ## format the code
	$(GOFUMPT) -w .

.PHONY: generate
generate: ## make the generated files again
	$(GO) generate ./...

.PHONY: generated
generated: ## fail when a generated file is out of date
	$(GO) generate ./...
	@git diff --exit-code --stat -- '*.json' '*.md' '*.go' || { echo "generated files are out of date, commit what make generate made"; exit 1; }

# Each system and each processor once, beside that of make build.
PLATFORMS = linux/arm64 darwin/arm64 windows/amd64

.PHONY: cross
cross: ## build for other systems and processors
	@for p in $(PLATFORMS); do \
	  echo "build $$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build $(GOFLAGS_R) -ldflags '$(LDFLAGS)' \
	    -o dist/handoff-$${p%/*}-$${p#*/} ./cmd/handoff || exit 1; \
	done

.PHONY: release
release: PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
release: cross ## build for every platform

.PHONY: rename
rename: ## give the module its real path: make rename MODULE=host/owner/name
	@test -n "$(MODULE)" || { echo "say make rename MODULE=host/owner/name"; exit 1; }
	@old=$$($(GO) list -m); git grep -lF "$$old" -- '*.go' '*.mod' '*.md' Makefile | xargs sed -i "s|$$old|$(MODULE)|g"

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist examples/*/bin
