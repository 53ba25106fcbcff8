# The commands of this project; `make` without a target lists them. Most are kopf-kit's, which `.venv/bin/kopf-kit`
# has with their help; what this repository alone needs is in hack/.
# CLUSTER=existing     use the current kubeconfig; never create or delete a cluster
# KIND_CLUSTER_NAME=…  the name of the kind cluster, for a second checkout; tests append -test
# KUBERNETES=1.35      the Kubernetes version for the fault tests, and of the kind cluster, if images can be pulled
# IMAGES=build         build all images here even if a registry can be reached; IMAGES=pull: build none
# IMG=… MESSAGE_IMG=…  the images of the operator and of the message Pods, as the cluster pulls them
# BUNDLE_IMG=…         a release's OLM bundle image, CATALOG_IMG=… that of its catalog
# KEYS=…               the folder with the keys that sign a release, by default build/keys; COSIGN_PASSWORD is their passphrase
# REGISTRY=…           where to push bundle, catalog, charts and images: host[:port][/path]; default: beside the kind cluster
# PROJECT=examples/memcached  another operator of this repository; generate, verify and its tests are limited to it
# PLATFORMS=…          build images for these: linux/amd64,linux/arm64; default: this machine's
# MINUTES=10           the time of the tier `soak`, and of the one of etcd in `examples-long`, instead of an hour
# NUMBER=300           how many Messages the tier `faults-long` makes, instead of ten thousand
CLUSTER ?= kind
IMG ?=
unexport PROJECT
export BUNDLE_IMG CATALOG_IMG CLUSTER IMAGES IMG KEYS KUBERNETES MESSAGE_IMG PLATFORMS REGISTRY
# Each line of a recipe handles failures itself: make 3.81, which macOS has, ignores .SHELLFLAGS.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
ARGS ?=
KIT = PROJECT=$(PROJECT) $(PY) -m kopf_kit
PROJECTS := $(or $(PROJECT),. $(patsubst %/PROJECT,%,$(wildcard examples/*/PROJECT)))

# A variable whose name is misspelt on the command line would be ignored in silence.
GIVEN := $(if $(filter 0,$(MAKELEVEL)),$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
$(foreach name,$(GIVEN),$(shell grep -qw -e '$(name)' $(MAKEFILE_LIST) || \
  echo "make: warning: no command here has a variable $(name); it only goes into the environment" >&2))

.PHONY: help no-other-project demo plugin sabotage bench check test test-all judges slowest e2e generate bundle verify bump \
  scan fmt run lock cluster cluster-down olm install uninstall deploy undeploy docker-build docker-push push release
help:
	@test -t 1 && colour=1; awk -v colour=$$colour 'BEGIN {FS = ":.*## "; \
	    if (colour) {bold = "\033[1m"; blue = "\033[36m"; plain = "\033[0m"}} \
	  /^##@/ {printf "\n%s%s%s\n", bold, substr($$0, 5), plain} \
	  /^[a-zA-Z0-9_-]+:.*## / {printf "  %s%-15s%s %s\n", blue, $$1, plain, $$2}' $(MAKEFILE_LIST)
no-other-project: # the first thing that a command needs which is only for the operator of the repository itself
	@case "$(PROJECT)" in ""|.) ;; *) \
	  echo "make: PROJECT=$(PROJECT) cannot be used here: \`make $(MAKECMDGOALS)\` is about the repository's own operator; leave PROJECT out" >&2; exit 1;; esac

##@ Start here
demo: no-other-project $(READY) ## run the main job: a cluster, the operator by Helm, a Message in Korean
	@$(PY) -m hack demo
plugin: $(READY) ## pack `kubectl message`, and install it into ~/.local/bin (PROJECT=…)
	@$(KIT) plugin
sabotage: no-other-project $(READY) ## apply small changes, one at a time: a test must notice each (ARGS="-k lease")
	@$(PY) -m hack sabotage $(ARGS)
bench: no-other-project $(READY) ## measure beside the peers, into docs/benchmarks.md (ARGS=--quick: CPU alone)
	@$(PY) -m bench $(ARGS)

##@ Test
check: $(READY) ## all tiers of tests that need no cluster (ARGS="--tier unit -k status")
	@$(KIT) check $(ARGS)
test: $(READY) ## all that must pass before a change lands (ARGS="--tier faults --tier e2e", PROJECT=…)
	@$(KIT) test $(ARGS)
test-all: $(READY) ## all tests there are (ARGS="--part olm")
	@$(KIT) test-all $(ARGS)
judges: $(READY) ## have programs of others judge chart, Dockerfile, workflows and image; all have to be had
	@$(PY) -m kopf_kit.cli.judges --all $(ARGS)
slowest: $(READY) ## the twenty slowest tests of the last run
	@$(KIT) slowest
e2e: $(READY) ## end-to-end tests by Helm alone, on the cluster (ARGS="-k create")
	@$(KIT) e2e $(ARGS)

##@ Develop
generate: $(READY) ## regenerate all generated files
	@$(PY) -m hack.home
	@$(PY) -m hack.reference
	@for project in $(PROJECTS); do PROJECT=$$project $(PY) -m kopf_kit generate || exit; done
bundle: generate # operator-sdk's name for it, and the name of a folder: without this, make finds nothing to do
verify: $(READY) ## find generated files that are out of date, changes of a CRD that break what is stored
	@for project in $(PROJECTS); do PROJECT=$$project $(PY) -m kopf_kit verify || exit; done
bump: $(READY) ## raise the version wherever it is written (VERSION=x.y.z)
	@$(KIT) bump "$(VERSION)"
	@$(KIT) generate
# It takes a database that knows nothing, such as a proxy's empty answer, for good news.
AUDIT := $(VENV)/bin/uvx -q --system-certs pip-audit@2.10.1 --strict --disable-pip --vulnerability-service osv --timeout 60 --progress-spinner off
scan: $(READY) ## look up known vulnerabilities of the locked packages; asks api.osv.dev
	@! echo django==1.11 | $(AUDIT) --no-deps --requirement=/dev/stdin >/dev/null 2>&1 || { \
	  echo "make: no vulnerability of django 1.11 is known there, which has many: nothing was looked up" >&2; exit 1; }
	@$(AUDIT) --require-hashes --requirement=requirements.txt $(ARGS)
fmt: $(READY) ## format the Python code
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .
run: $(READY) ## run the operator here, against the cluster (ARGS="--namespace demo")
	@$(KIT) run $(ARGS)
lock: $(READY) ## write the hashed lock again, from pyproject.toml
	@$(VENV)/bin/uv pip compile -q --system-certs --universal --generate-hashes --no-header --annotation-style line \
	  pyproject.toml --group=dev --group=go \
	  $(addprefix --no-emit-package=,$(notdir $(WORKSPACE))) -o requirements.txt
	@$(PY) -m hack.pruned $(VENV)/bin/uv

##@ Cluster
cluster: $(READY) ## create a kind cluster and its registry, unless they exist
	@$(KIT) cluster up
cluster-down: $(READY) ## delete the kind cluster, that of the tests, and their registry
	@$(KIT) cluster down
olm: $(READY) ## the Operator Lifecycle Manager in the cluster, and catalogd; ARGS=down removes both
	@$(KIT) olm $(or $(ARGS),up)
install: $(READY) ## put the CRD into the cluster
	@$(KIT) install
uninstall: $(READY) ## remove the CRD, and with it every object of the kind
	@$(KIT) uninstall
deploy: $(READY) ## install the operator by Helm (IMG=…, else the image built here)
	@$(KIT) deploy
undeploy: $(READY) ## remove the operator; the objects stay
	@$(KIT) undeploy

##@ Image and release
docker-build: $(READY) ## build the operator's image (IMG=… PLATFORMS=linux/amd64,linux/arm64)
	@$(KIT) image build
docker-push: $(READY) ## push the operator's image (IMG=… PLATFORMS=…)
	@$(KIT) image push
push: $(READY) ## push charts, OLM bundle and catalog with their images (REGISTRY=… ARGS="bundle catalog")
	@$(KIT) push $(ARGS)
release: $(if $(filter keys bundle,$(ARGS)),,no-other-project) $(READY) ## do the whole of a release (VERSION=x.y.z REGISTRY=… KEYS=…), or one step: keys or bundle (ARGS=keys)
	@$(KIT) release $(ARGS) $(if $(filter keys,$(ARGS)),,"$(VERSION)")

# The virtual environment, installed from its part of the hashed lock and again whenever the lock changes. uv needs
# half of pip's processor time; if it fails, pip is used, because uv ignores pip's settings for package mirrors. An index
# that fails for a moment is asked again.
PIP := $(PY) -m pip install -q --disable-pip-version-check --retries=10
UV := UV_HTTP_RETRIES=10 $(VENV)/bin/uv pip install -q --system-certs --python $(PY)
WORKSPACE := $(wildcard packages/*)
LOCKED := $(PY) packages/kopf-kit/src/kopf_kit/rig/locked.py
NO_LINK = test ! -L $(VENV) || { \
	  echo "make: $(VENV) is a link to another checkout's and older than $<; run make there, it would be changed from here" >&2; exit 1; }
$(READY): $(addsuffix /pyproject.toml,$(WORKSPACE)) $(VENV)/.locked
	@$(NO_LINK)
	@$(UV) --no-deps --no-build-isolation $(addprefix -e ,. $(WORKSPACE))
	@touch $@
$(VENV)/.locked: requirements.txt
	@$(NO_LINK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $(PYTHON) is missing or older than 3.11; install Python 3.11+ or set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -o Acquire::Retries=5 -y -qq python3-venv; \
	  else echo "make: Python's venv module is missing; install it (Debian: apt-get install python3-venv)" >&2; exit 1; fi; }
	@echo "==> Python packages into $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(LOCKED) uv <requirements.txt >$(VENV)/uv.txt
	@$(LOCKED) kopf-runtime kopf-kit pyproject.toml:dev <requirements.txt >$(VENV)/dev.txt
	@$(PIP) --no-compile --require-hashes -r $(VENV)/uv.txt
	@$(UV) --require-hashes -r $(VENV)/dev.txt || $(PIP) --no-compile --require-hashes -r $(VENV)/dev.txt
	@touch $@
