# The commands of every operator's repository; its Makefile includes this file and adds its own.
# Each line of a recipe handles failures itself: make 3.81, which macOS has, ignores .SHELLFLAGS, and
# the shell may be any POSIX shell.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# --- Variables ------------------------------------------------------------------------------------
# CLUSTER=existing     use the current kubeconfig; never create or delete a cluster
# KIND_CLUSTER_NAME=…  the name of the kind cluster, for a second checkout; tests append -test
# IMAGES=build         build all images here even if a registry can be reached; IMAGES=pull: build none
# IMG=…                the operator's image, under the name by which the cluster pulls it
# BUNDLE_IMG=…         a release's OLM bundle image, CATALOG_IMG=… that of its catalog; NAME_IMG=… the
#                      image that PROJECT lists as `name`
# KEYS=…               the folder with the keys that sign a release, by default build/keys;
#                      COSIGN_PASSWORD is their passphrase
# REGISTRY=…           where to push bundle, catalog, charts and the images that they name:
#                      host[:port][/path]; default: the registry beside the kind cluster
# UNTESTED=yes         release what `make test-all` has not passed
# PROJECT=examples/memcached
#                      another operator of this repository, for every command that is about an
#                      operator; one that cannot be about it says so. generate, verify and the
#                      tests that know it are limited to it, otherwise they cover all operators
# PLATFORMS=…          build images for these: linux/amd64,linux/arm64; default: this machine's
CLUSTER ?= kind
IMG ?=
unexport PROJECT
export UNTESTED CLUSTER IMAGES IMG PLATFORMS BUNDLE_IMG CATALOG_IMG REGISTRY KEYS

# A variable whose name is misspelt on the command line would be ignored in silence.
GIVEN := $(if $(filter 0,$(MAKELEVEL)),$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
$(foreach name,$(GIVEN),$(shell grep -qw -e '$(name)' $(MAKEFILE_LIST) || \
  echo "make: warning: no command here has a variable $(name); it only goes into the environment" >&2))

# --------------------------------------------------------------------------------------------------
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
ARGS ?=
PROJECTS := $(or $(PROJECT),. $(patsubst %/PROJECT,%,$(wildcard examples/*/PROJECT)))

.PHONY: help
help:
	@test -t 1 && colour=1; awk -v colour=$$colour 'BEGIN {FS = ":.*## "; \
	    if (colour) {bold = "\033[1m"; blue = "\033[36m"; plain = "\033[0m"}} \
	  /^##@/ {printf "\n%s%s%s\n", bold, substr($$0, 5), plain} \
	  /^[a-zA-Z0-9_-]+:.*## / {printf "  %s%-15s%s %s\n", blue, $$1, plain, $$2}' $(MAKEFILE_LIST)

# The first thing that a command needs which is only for the operator of the repository itself.
.PHONY: no-other-project
no-other-project:
	@case "$(PROJECT)" in ""|.) ;; *) \
	  echo "make: PROJECT=$(PROJECT) cannot be asked for here: \`make $(MAKECMDGOALS)\` is about the repository's own operator; leave PROJECT out" >&2; exit 1;; esac

##@ Test

.PHONY: check
check: $(READY) ## all tiers of tests that need no cluster (ARGS="--tier unit -k status")
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit test check -- $(ARGS)

.PHONY: test
test: $(READY) ## all that must pass before a change lands (ARGS="--tier faults --tier e2e", PROJECT=…)
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit test test -- $(ARGS)

.PHONY: test-all
test-all: $(READY) ## all tests there are, from where the last run of it stopped (ARGS="--part olm")
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit test all -- $(ARGS)

.PHONY: slowest
slowest: $(READY) ## the twenty slowest tests of the last run
	@$(PY) -m kopf_kit slowest

.PHONY: e2e
e2e: $(READY) ## end-to-end tests by Helm alone, on the cluster (ARGS="-k create")
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit e2e -- $(ARGS)

##@ Develop

.PHONY: generate
generate: $(READY) ## write the files that are made of others
	@for project in $(PROJECTS); do PROJECT=$$project $(PY) -m kopf_kit generate || exit; done

# operator-sdk's name for it, and the name of a folder: without this, make finds nothing to do.
.PHONY: bundle
bundle: generate

.PHONY: verify
verify: $(READY) ## find generated files that are out of date, mistakes in bundle and catalog
	@for project in $(PROJECTS); do PROJECT=$$project $(PY) -m kopf_kit verify || exit; done

.PHONY: bump
bump: $(READY) ## raise the version, and with it all that names it (VERSION=x.y.z)
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit bump "$(VERSION)"
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit generate

# It takes a database that knows nothing, such as a proxy's empty answer, for good news.
AUDIT := $(VENV)/bin/pip-audit --strict --disable-pip --vulnerability-service osv --timeout 60 --progress-spinner off
.PHONY: scan
scan: $(READY) ## look up known vulnerabilities of the locked packages; asks api.osv.dev
	@! echo django==1.11 | $(AUDIT) --no-deps --requirement=/dev/stdin >/dev/null 2>&1 || { \
	  echo "make: no vulnerability of django 1.11 is known there, which has many: nothing was looked up" >&2; exit 1; }
	@$(AUDIT) --require-hashes --requirement=requirements.txt $(ARGS)

.PHONY: fmt
fmt: $(READY) ## format the Python code
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

.PHONY: run
run: $(READY) ## run the operator here, against the cluster (ARGS="--namespace demo")
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit run -- $(ARGS)

.PHONY: lock
lock: $(READY) ## write the hashed lock again, from pyproject.toml
	@$(VENV)/bin/uv pip compile -q --system-certs --universal --generate-hashes --no-header --annotation-style line \
	  pyproject.toml $(addprefix --group=,dev go $(LOCKED_GROUPS)) $(addprefix --no-emit-package=,$(notdir $(WORKSPACE))) \
	  -o requirements.txt
	@$(PY) -m kopf_kit.rig.pruned $(VENV)/bin/uv

##@ Cluster

.PHONY: cluster
cluster: $(READY) ## create a kind cluster and its registry, unless they exist
	@$(PY) -m kopf_kit cluster up

.PHONY: cluster-down
cluster-down: $(READY) ## delete the kind cluster, that of the tests, and their registry
	@$(PY) -m kopf_kit cluster down

.PHONY: olm
olm: $(READY) ## the Operator Lifecycle Manager in the cluster, and catalogd; ARGS=down removes both
	@$(PY) -m kopf_kit olm $(or $(ARGS),up)

.PHONY: install
install: $(READY) ## put the CRD into the cluster
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit crd install

.PHONY: uninstall
uninstall: $(READY) ## remove the CRD, and with it every object of the kind
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit crd uninstall

.PHONY: deploy
deploy: $(READY) ## install the operator by Helm (IMG=…, else the image built here)
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit deploy

.PHONY: undeploy
undeploy: $(READY) ## remove the operator; the objects stay
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit undeploy

##@ Image

.PHONY: docker-build
docker-build: $(READY) ## build the operator's image (IMG=… PLATFORMS=linux/amd64,linux/arm64)
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit image build

.PHONY: docker-push
docker-push: $(READY) ## push the operator's image (IMG=… PLATFORMS=…)
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit image push

.PHONY: push
push: $(READY) ## push charts, OLM bundle and catalog with their images (REGISTRY=… ARGS="bundle catalog")
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit push -- $(ARGS)

##@ Release

# Its other steps: `keys` makes the keys that sign, `changelog` writes what this version changes into
# CHANGELOG.md, `page` makes the page on GitHub, and `bundle` records a release and lays out what
# community-operators gets.
.PHONY: release
release: $(if $(filter keys bundle,$(ARGS)),,no-other-project) $(READY) ## do the whole of a release (VERSION=x.y.z REGISTRY=… KEYS=…), or of it keys, changelog, page or bundle (ARGS=keys)
	@PROJECT=$(PROJECT) $(PY) -m kopf_kit release$(addprefix -,$(ARGS)) $(if $(filter keys changelog,$(ARGS)),,"$(VERSION)")
	@$(if $(filter changelog,$(ARGS)),$(PY) -m kopf_kit generate)

# The virtual environment, installed from its part of the hashed lock and again whenever the lock
# changes. uv needs half of pip's processor time; if it fails, pip is used, because uv ignores pip's
# settings for package mirrors.
PIP := $(PY) -m pip install -q --disable-pip-version-check
UV := $(VENV)/bin/uv pip install -q --system-certs --python $(PY)
WORKSPACE := $(wildcard packages/*)
LOCKED := $(PY) packages/kopf-kit/src/kopf_kit/rig/locked.py
$(READY): requirements.txt
	@test ! -L $(VENV) || { \
	  echo "make: $(VENV) is a link to another checkout's and older than requirements.txt; run make there, it would be emptied from here" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $(PYTHON) is missing or older than 3.11; install Python 3.11+ or say PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq python3-venv; \
	  else echo "make: Python's venv module is missing; install it (Debian: apt-get install python3-venv)" >&2; exit 1; fi; }
	@echo "==> Python packages into $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(LOCKED) uv <requirements.txt >$(VENV)/uv.txt
	@$(LOCKED) kopf-runtime kopf-kit pyproject.toml:dev <requirements.txt >$(VENV)/dev.txt
	@$(PIP) --no-compile --require-hashes -r $(VENV)/uv.txt
	@$(UV) --require-hashes -r $(VENV)/dev.txt || $(PIP) --no-compile --require-hashes -r $(VENV)/dev.txt
	@$(UV) --no-deps --no-build-isolation $(addprefix -e ,. $(WORKSPACE))
	@touch $@
