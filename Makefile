# The commands of this project; `make` without a target lists them. packages/kopf-kit/kit.mk has the commands and
# the variables of every operator's repository. These variables are only for this repository:
# KUBERNETES=1.35      the Kubernetes version for the fault tests, and of the kind cluster, if images
#                      can be pulled
# MESSAGE_IMG=…        a release's image for the message Pods
# MINUTES=10           the time of the tier `soak`, instead of an hour
# NUMBER=300           how many Messages the tier `faults-long` makes, instead of ten thousand
# PORT=8000            the port of `make docs ARGS=serve`
export KUBERNETES MESSAGE_IMG

# What draws the benchmark's picture, and what builds the site.
LOCKED_GROUPS := bench docs
include packages/kopf-kit/kit.mk

##@ Start here

.PHONY: demo
demo: no-other-project $(READY) ## run the main job: a cluster, the operator by Helm, a Message in Korean
	@$(PY) -m kopf_kit demo

.PHONY: plugin
plugin: no-other-project $(READY) ## pack `kubectl message`, and install it into ~/.local/bin
	@$(PY) -m kopf_kit plugin

.PHONY: sabotage
sabotage: no-other-project $(READY) ## apply small defects, one at a time: a test must notice each (ARGS="-k NAME")
	@$(PY) -m kopf_kit sabotage $(ARGS)

.PHONY: bench
bench: no-other-project $(READY) ## measure beside the peers, into docs/benchmarks.md (ARGS=--quick: to try it)
	@$(PY) -m bench $(ARGS)

.PHONY: docs
docs: $(READY) ## build the documentation site into build/site; ARGS=serve serves it, too (PORT=8000)
	@$(PY) -m kopf_kit docs$(addprefix -,$(ARGS)) $(if $(and $(PORT),$(ARGS)),--port="$(PORT)")

