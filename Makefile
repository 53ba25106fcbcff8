# The commands of this project; `make` without a target lists them. hack/kit.mk has the commands and
# the variables of every operator's repository. These variables are only for this repository:
# KUBERNETES=1.35      the Kubernetes version for `make faults` and `make matrix`, and of the kind
#                      cluster, if images can be pulled
# MESSAGE_IMG=…        a release's image for the message Pods
# PORT=8000            the port of `make docs-serve`
export KUBERNETES MESSAGE_IMG

# What draws the benchmark's picture, and what builds the site.
LOCKED_GROUPS := bench docs
include hack/kit.mk

##@ Start here

.PHONY: demo
demo: no-other-project $(READY) ## run the main job: a cluster, the operator by Helm, a Message in Korean
	@$(PY) -m hack demo

.PHONY: test
test: preflight check faults e2e docs-first ## all that must pass before a change lands

.PHONY: new
new: $(READY) ## a repository for a new operator (NAME=cache-operator KIND=Cache GROUP=x.example.com DIR=…)
	@$(PY) -m hack new -- "$(NAME)" "$(KIND)" "$(GROUP)" "$(DIR)"

.PHONY: plugin
plugin: no-other-project $(READY) ## pack `kubectl message`, and install it into ~/.local/bin
	@$(PY) -m hack plugin

##@ Test and measure

.PHONY: soak
soak: no-other-project $(READY) ## an hour of churn: the memory of two replicas stays (MINUTES=10)
	@$(PY) -m hack soak -- $(ARGS)

.PHONY: sabotage
sabotage: no-other-project $(READY) ## apply small defects, one at a time: a test must notice each (ARGS="-k NAME")
	@$(PY) -m hack sabotage $(ARGS)

.PHONY: matrix
matrix: $(READY) ## test what depends on the API server, on each Kubernetes (KUBERNETES=1.35)
	@PROJECT=$(PROJECT) $(PY) -m hack matrix -- $(ARGS)

.PHONY: e2e-olm
e2e-olm: $(READY) ## the end-to-end tests by OLM alone, on the cluster (ARGS="-k upgrade" PROJECT=…)
	@PROJECT=$(PROJECT) $(PY) -m hack e2e-olm -- $(ARGS)

.PHONY: test-make
test-make: no-other-project $(READY) ## these commands themselves, on the tests' cluster (ARGS="-k deploy")
	@$(PY) -m hack test-make -- $(ARGS)

.PHONY: test-online
test-online: $(READY) ## the demo on a machine that pulls its images: not as root, with Helm 3 and 4
	@$(PY) -m pytest tests/online $(ARGS)

.PHONY: test-platforms
test-platforms: $(READY) ## the images of every platform that the bundle promises, run under QEMU
	@$(PY) -m pytest tests/platforms $(ARGS)

.PHONY: test-new
test-new: $(READY) ## what `make new` writes: its own `make check`, and a newer kit (`make kit-update`)
	@$(PY) -m pytest tests/new $(ARGS)

.PHONY: test-new-e2e
test-new-e2e: $(READY) ## what `make new` writes: its own `make e2e` at once, on a kind cluster of its own
	@$(PY) -m pytest tests/new_e2e $(ARGS)

.PHONY: test-author
test-author: $(READY) ## "Write your own operator", done as the page says (ARGS="-k without_a_cluster")
	@$(PY) -m pytest tests/author $(ARGS)

.PHONY: test-release
test-release: $(READY) ## whole releases into a registry, verified as a stranger would, tampered with
	@$(PY) -m pytest tests/release $(ARGS)

.PHONY: test-release-images
test-release-images: $(READY) ## a release that builds its images itself, twice: they are the same
	@$(PY) -m pytest tests/built $(ARGS)

.PHONY: test-upgrades
test-upgrades: $(READY) ## rehearse releases: each is installed, and upgraded by Helm and OLM (ARGS="-k olm")
	@$(PY) -m hack test-upgrades -- -s --timeout=5400 $(ARGS)

.PHONY: bench
bench: no-other-project $(READY) ## measure beside the peers, into docs/benchmarks.md (ARGS=--quick: to try it)
	@$(PY) -m bench $(ARGS)

##@ Documents

.PHONY: docs
docs: $(READY) ## build the documentation site, in English and Korean, into build/site
	@$(PY) -m hack docs

.PHONY: docs-serve
docs-serve: $(READY) ## serve the site, and build it again after each change (PORT=8000)
	@$(PY) -m hack docs-serve $(if $(PORT),--port="$(PORT)")

.PHONY: docs-check
docs-check: $(READY) ## the site's links, pages and search, in a real Chromium
	@$(PY) -m pytest tests/site $(ARGS)

.PHONY: docs-test
docs-test: $(READY) ## type the commands of the pages on the tests' cluster (ARGS="-k tutorial")
	@$(PY) -m pytest tests/docs $(ARGS)

.PHONY: docs-first
docs-first: $(READY) ## of `make docs-test`, the first page and the tutorial
	@$(PY) -m pytest tests/docs -k "first_page or tutorial or README and not charts" $(ARGS)

.PHONY: dashboard
dashboard: no-other-project $(READY) ## draw the dashboard of an operator under faults as docs/dashboard.png
	@$(PY) -m pytest tests/dashboard $(ARGS)
