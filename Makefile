# agentd. `make help` lists the targets.

SHELL      := /bin/bash
BIN        := bin
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS    := -s -w -X main.version=$(VERSION)
GO         ?= go
PACKAGES   ?= ./...
TESTFLAGS  ?=
FUZZTIME   ?= 10s

# A release of the linter is chosen, never found; docs/adr/0006-lint.md.
LINT_VERSION := v2.15.0
LINT         := $(BIN)/golangci-lint-$(LINT_VERSION)

# The tests that write golden files.
GOLDEN = $(shell grep -rl --include='*_test.go' 'goldentest\.Check' cmd internal test 2>/dev/null)

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: build ## Build agentd and serve on 127.0.0.1:8080, SQLite and NATS inside
	$(BIN)/agentd serve

.PHONY: build
build: ## Build bin/agentd
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/agentd ./cmd/agentd

PREFIX ?= /usr/local

.PHONY: install
install: build ## Install agentd as PREFIX/bin/agentd (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(BIN)/agentd $(DESTDIR)$(PREFIX)/bin/agentd

.PHONY: uninstall
uninstall: ## Remove PREFIX/bin/agentd; data stays
	rm -f $(DESTDIR)$(PREFIX)/bin/agentd

# Prints one line for each package, what fails in full, and one line at the end.
GOTEST := $(GO) run ./internal/tools/gotest

.PHONY: test
test: ## Run every test; those on PostgreSQL too where it is installed
	$(GOTEST) $(TESTFLAGS) $(PACKAGES)

# No whole servers, no long tests; what did not change comes from the cache.
.PHONY: test-quick
test-quick: ## Run the tests of single packages, without those that take long
	$(GOTEST) -short -vet=off ./internal/... ./cmd/... ./bench/...

# The tests that walk all operations: a new operation, field or parameter that
# they do not know fails them with what to add and where.
.PHONY: contract
contract: ## Run the tests that walk all operations, and those of the documents made from them
	$(GOTEST) -vet=off ./test/openapi ./internal/archtest ./test/e2e/documents ./test/e2e/contract ./test/e2e/isolation

.PHONY: bench-retrieval
bench-retrieval: ## Ask the golden sets of questions, and measure indexing, search and memory
	$(GO) test ./internal/content/textindex -run TestGolden -v -count 1 | grep 'recall@5'
	$(GO) test ./internal/content/textindex -run '^$$' -bench 'Prose|Nearest' -benchtime 3x
	$(GO) test ./internal/content/textindex -run '^$$' -bench ManyBases -benchtime 1x
	$(GO) test ./internal/content/knowledge -run '^$$' -bench Ingest -benchtime 2x

.PHONY: test-postgres
test-postgres: export AGENTD_TEST_REQUIRE_POSTGRES = 1
test-postgres: test ## Run every test and fail where PostgreSQL is not installed

# Outside of the tree, so that nothing that walks it meets sixteen thousand
# files of others; installed anew where the versions changed.
CLIENTS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/agentd-test/clients

.PHONY: test-clients
test-clients: ## Run the official JavaScript clients against agentd; needs node and npm
	@mkdir -p $(CLIENTS)
	@cmp -s test/clients/package-lock.json $(CLIENTS)/node_modules/.agentd-lock || ( \
		cp test/clients/package.json test/clients/package-lock.json $(CLIENTS)/ && \
		npm ci --prefix $(CLIENTS) --ignore-scripts --no-audit --no-fund --loglevel=error && \
		cp test/clients/package-lock.json $(CLIENTS)/node_modules/.agentd-lock )
	AGENTD_TEST_CLIENTS=$(CLIENTS) $(GO) test -count=1 -run '^TestOfficialClients$$' $(TESTFLAGS) ./test/e2e/compat

# The types of the API are made from the document at each build; see docs/console.md.
.PHONY: web
web: ## Build the console into internal/edge/console/dist; needs node and npm
	npm ci --prefix clients/typescript --ignore-scripts --no-audit --no-fund --loglevel=error
	npm ci --prefix web --ignore-scripts --no-audit --no-fund --loglevel=error
	npm run --silent --prefix clients/typescript build
	npm run --silent --prefix web check
	node web/build.mjs

CONSOLE ?= $(dir $(CLIENTS))console

.PHONY: test-console
test-console: ## Use the console in a browser; needs node, npm and chromium
	@if ! command -v npm >/dev/null || ! command -v chromium >/dev/null; then \
		echo 'skipped: node, npm or chromium is not installed'; exit 0; fi; set -e; \
	mkdir -p $(CONSOLE); \
	cmp -s test/console/package-lock.json $(CONSOLE)/node_modules/.agentd-lock || ( \
		cp test/console/package.json test/console/package-lock.json $(CONSOLE)/ && \
		npm ci --prefix $(CONSOLE) --ignore-scripts --no-audit --no-fund --loglevel=error && \
		cp test/console/package-lock.json $(CONSOLE)/node_modules/.agentd-lock ); \
	AGENTD_TEST_CONSOLE=$(CONSOLE) $(GO) test -count=1 -parallel=4 -run '^TestConsole$$' $(TESTFLAGS) ./test/e2e/browser

.PHONY: test-typescript
test-typescript: ## Generate, compile and test the TypeScript client; needs node and npm
	npm ci --prefix clients/typescript --ignore-scripts --no-audit --no-fund --loglevel=error
	npm test --silent --prefix clients/typescript

GENERATED ?= $(dir $(CLIENTS))generated
OAPI_CODEGEN_VERSION ?= v2.8.2

.PHONY: generators
generators:
	@mkdir -p $(GENERATED)/bin
	@cmp -s test/generated/package-lock.json $(GENERATED)/node_modules/.agentd-lock || ( \
		cp test/generated/package.json test/generated/package-lock.json $(GENERATED)/ && \
		npm ci --prefix $(GENERATED) --ignore-scripts --no-audit --no-fund --loglevel=error && \
		cp test/generated/package-lock.json $(GENERATED)/node_modules/.agentd-lock )
	@test -x $(GENERATED)/bin/oapi-codegen-$(OAPI_CODEGEN_VERSION) || ( \
		GOBIN=$(GENERATED)/bin $(GO) install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$(OAPI_CODEGEN_VERSION) && \
		cp $(GENERATED)/bin/oapi-codegen $(GENERATED)/bin/oapi-codegen-$(OAPI_CODEGEN_VERSION) )

.PHONY: test-generated
test-generated: generators ## Generate clients from the OpenAPI document, compile and run them; needs node and npm
	AGENTD_TEST_GENERATED=$(GENERATED) $(GO) test -count=1 -run '^TestGeneratedClients$$' $(TESTFLAGS) ./test/e2e/documents

.PHONY: contract-lint
contract-lint: generators ## Lint api/openapi.json with test/generated/spectral.yaml; needs node and npm
	$(GENERATED)/node_modules/.bin/spectral lint --quiet --fail-severity=warn --ruleset test/generated/spectral.yaml api/openapi.json

# More than a gigabyte of programs: not in CI.
AGENTS ?= $(dir $(CLIENTS))agents

.PHONY: test-coding-agents
test-coding-agents: ## Run coding agents against agentd; needs node and npm, and downloads a gigabyte
	@mkdir -p $(AGENTS)
	@cmp -s test/agents/package.json $(AGENTS)/package.json && [ -d $(AGENTS)/node_modules ] || ( \
		cp test/agents/package.json $(AGENTS)/ && \
		npm install --prefix $(AGENTS) --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error && \
		node $(AGENTS)/node_modules/@anthropic-ai/claude-code/install.cjs && \
		node $(AGENTS)/node_modules/opencode-ai/postinstall.mjs )
	AGENTD_TEST_AGENTS=$(AGENTS) $(GO) test -count=1 -run '^TestCodingAgents$$' $(TESTFLAGS) ./test/e2e/compat

# SQLite is C that became Go: watching it takes most of the time, and the races that
# we could make are in what calls it. The driver around it is watched: the linker may
# take its copy of generic code, such as that of sync.Map, for the whole program. The
# C library has no such code.
.PHONY: race
race: export AGENTD_TEST_PROGRAM = $(CURDIR)/$(BIN)/agentd
race: override TESTFLAGS += -race -shuffle=on -gcflags=modernc.org/...=-d=checkptr=0 -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false
race: build test ## Run every test with the race detector, in random order

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (10s)
	@grep -rn --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' cmd internal test | sed 's/:.*func / /' | \
	while read -r file target; do \
		echo "== $$target in $$(dirname $$file)"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$(dirname $$file)" || exit 1; \
	done

.PHONY: fmt
fmt: ## Format the code
	gofmt -w $(shell git ls-files -co --exclude-standard '*.go')

.PHONY: fmt-check
fmt-check: ## Fail where the code is not formatted
	@unformatted=$$(gofmt -l $(shell git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted; run make fmt:"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet: ## Run go vet
	$(GO) vet $(PACKAGES)

.PHONY: lint
lint: $(LINT) ## Run golangci-lint, built once at its pinned version
	$(LINT) run $(PACKAGES)

.PHONY: linter
linter: $(LINT) ## Build the linter

$(LINT):
	@mkdir -p $(BIN)
	GOBIN=$(CURDIR)/$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv $(BIN)/golangci-lint $@

# One package at a time, because two write the OpenAPI document.
.PHONY: golden
golden: ## Write the golden files anew (OpenAPI, configuration reference, transcripts)
	@tests=$$(awk -F '[ (]' '/^func /{test=$$2} /goldentest\.Check/{print test}' $(GOLDEN) | sort -u | paste -s -d '|') && \
	$(GO) test -count=1 -vet=off -p 1 -run "^($$tests)$$" $(addprefix ./,$(sort $(dir $(GOLDEN)))) -update

.PHONY: docs
docs: golden ## Write generated documents anew and check links, examples and conformance
	$(GO) test -count=1 ./internal/archtest

.PHONY: bench
bench: ## Compare agentd with what the machine allows (about 12 minutes)
	$(GO) run ./bench/measure

.PHONY: bench-quick
bench-quick: ## The same, a first impression (about 2 minutes)
	$(GO) run ./bench/measure -quick

.PHONY: bench-growth
bench-growth: ## Measure lists, writes, restart and bytes with RUNS=1000000 runs, on both engines or on ENGINE (about 15 minutes each)
	for engine in $(or $(ENGINE),sqlite postgres); do $(GO) run ./bench/growth -runs $(or $(RUNS),1000000) -engine $$engine || exit 1; done

.PHONY: sbom
sbom: build ## Write bin/agentd.cdx.json, what the program is made of (CycloneDX)
	$(GO) run ./internal/tools/sbom $(BIN)/agentd $(VERSION) >$(BIN)/agentd.cdx.json

# Both builds link anew. FULL=1 also compiles everything twice, which takes minutes.
.PHONY: reproducible
reproducible: ## Build twice in different directories and fail if a byte differs
	@set -e; work=$$(mktemp -d); trap 'chmod -R u+w "$$work"; rm -rf "$$work"' EXIT; \
	for n in one two; do \
		mkdir -p "$$work/$$n/in/a/directory/$$n"; cd "$$work/$$n/in/a/directory/$$n"; \
		(cd '$(CURDIR)' && git ls-files -z --cached --others --exclude-standard -- '*.go' '*.sql' go.mod go.sum internal api \
			| xargs -0 tar -c --ignore-failed-read 2>/dev/null) | tar -x; \
		$(if $(FULL),export GOCACHE="$$work/$$n/cache";) \
		CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o "$$work/$$n/agentd" ./cmd/agentd; \
	done; \
	cmp "$$work/one/agentd" "$$work/two/agentd"; sha256sum "$$work/one/agentd" | cut -d' ' -f1

.PHONY: release
release: ## Write dist/: archives and packages for all platforms, PLATFORMS or these, with checksums (about 15 minutes)
	packaging/release $(PLATFORMS)

VULNCHECK_VERSION := v1.9.0

.PHONY: vulncheck
vulncheck: build ## Look up known vulnerabilities in the modules of the program
	@if timeout 5 bash -c '</dev/tcp/vuln.go.dev/443' 2>/dev/null; then \
		$(GO) run golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION) -mode=binary $(BIN)/agentd; \
	else echo 'skipped: vuln.go.dev cannot be reached from here, so nothing is known about vulnerabilities of modules'; fi

.PHONY: clean
clean: ## Remove what was built; data stays
	rm -rf $(BIN) dist bench/bin bench/results
