# Thin names for the commands of this repository; .ci/run is what must pass.

.PHONY: build test test-all race fuzz bench lint generate doc counts package ci help

build: ## Build everything, and the command into bin/treerun
	go build ./... && go build -o bin/treerun ./cmd/treerun

test: ## Run the tests, with some rounds of the long ones
	go test -p 4 ./...

test-all: ## Run the tests with all their rounds
	TREERUN_ROUNDS=all go test -p 4 -timeout 30m ./...

race: ## Run the tests under the race detector
	go test -race -p 4 -timeout 30m ./...

fuzz: ## Give each fuzz test 3000 inputs
	scripts/fuzz.sh

bench: ## Run each benchmark once
	go test -run '^$$' -bench . -benchtime 1x ./...

lint: ## Run gofmt, vet and the linters
	scripts/lint.sh

generate: ## Write THIRD-PARTY and the PTX of the kernels again
	scripts/third-party.sh && scripts/ptx.sh cuda/kernels examples/train

doc: ## Check the pages, and list what users may import
	go test ./docs
	for p in rank collective collective/sparse collective/plan cuda cuda/nvml topo; do go doc -short ./$$p || exit; done

counts: ## Print figures of the source: lines, packages, types
	scripts/counts.sh

package: ## Build archives and packages of a version, into dist
	scripts/release.sh

ci: ## Run all that must pass before a change is taken in
	bash .ci/run

help: ## Print this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1	\2/p' Makefile | expand -t 12
