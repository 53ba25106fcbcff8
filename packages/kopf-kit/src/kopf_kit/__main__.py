"""The program `kopf-kit`: its commands, each in a module of `kopf_kit.cli`."""

import sys

import click

from kopf_kit.program import Entry, Program, run

_IN = "kopf_kit.cli."
_START, _TEST, _DEVELOP = "Start here", "Test", "Develop"
_CLUSTER, _IMAGE, _RELEASE = "Cluster", "Image", "Release"
COMMANDS = {
    "new": Entry(_START, f"{_IN}new:command", "write the repository of an operator", "nothing"),
    "remove": Entry(
        _START, f"{_IN}new:remove_command", "take out what `new kind` has added", "nothing"
    ),
    "adopt": Entry(
        _START, f"{_IN}new:adopt_command", "package an operator on plain kopf", "nothing"
    ),
    "check": Entry(
        _TEST, f"{_IN}test:check", "run the tiers of tests that need no cluster", "project"
    ),
    "test": Entry(
        _TEST, f"{_IN}test:test", "run the tiers that pass before a change lands", "project"
    ),
    "test-all": Entry(_TEST, f"{_IN}test:test_all", "run all tiers", "project"),
    "faults": Entry(
        _TEST, f"{_IN}test:faults", "kill and fault the operator at every write", "project"
    ),
    "e2e": Entry(_TEST, f"{_IN}e2e:e2e", "run the end-to-end tests by Helm"),
    "e2e-olm": Entry(_TEST, f"{_IN}e2e:e2e_olm", "run the end-to-end tests by OLM"),
    "rights": Entry(_TEST, f"{_IN}rights:command", "record the rights that it uses", "nothing"),
    "slowest": Entry(
        _TEST, f"{_IN}test:slowest", "name the slowest tests of the last run", "project"
    ),
    "generate": Entry(_DEVELOP, f"{_IN}generate:generate", "write the generated files", "project"),
    "verify": Entry(_DEVELOP, f"{_IN}generate:verify", "find mistakes, and stale generated files"),
    "run": Entry(
        _DEVELOP, f"{_IN}deploy:run_command", "run the operator here, against the cluster"
    ),
    "bump": Entry(
        _DEVELOP, f"{_IN}release:bump_command", "raise the version, and set its release date"
    ),
    "cluster": Entry(
        _CLUSTER, f"{_IN}clusters:command", "create or delete the kind cluster", "project"
    ),
    "olm": Entry(
        _CLUSTER,
        f"{_IN}clusters:olm_command",
        "install OLM in the cluster, or remove it",
        "project",
    ),
    "install": Entry(_CLUSTER, f"{_IN}crd:install_command", "put the CRD into the cluster"),
    "uninstall": Entry(_CLUSTER, f"{_IN}crd:uninstall_command", "remove the CRD, and every object"),
    "deploy": Entry(_CLUSTER, f"{_IN}deploy:deploy_command", "install the operator by Helm"),
    "undeploy": Entry(
        _CLUSTER, f"{_IN}deploy:undeploy_command", "remove the operator; the objects stay"
    ),
    "plugin": Entry(
        _CLUSTER, f"{_IN}deploy:plugin_command", "pack and install its plugin for kubectl"
    ),
    "tool": Entry(_CLUSTER, f"{_IN}clusters:tool", "print the paths of programs", "project"),
    "image": Entry(_IMAGE, f"{_IN}push:image_command", "build or push the operator's image"),
    "push": Entry(_IMAGE, f"{_IN}push:command", "push charts, bundle and catalog"),
    "release": Entry(_RELEASE, f"{_IN}release:command", "do a whole release, or a step of it"),
}
#: The environment variables that the commands read.
VARIABLES = {
    "CLUSTER=existing": "the current kubeconfig's cluster; none is created or deleted",
    "KIND_CLUSTER_NAME": "the kind cluster's name, for a second checkout",
    "KUBERNETES=1.35": "the Kubernetes of the fault tests, and of the kind cluster if it is pulled",
    "IMAGES=build|pull": "build all images here, or none; by default, what cannot be pulled",
    "IMG": "the operator's image, as the cluster pulls it; by default, it is built",
    "NODE_IMG": "the same for the image that PROJECT calls `node`, and so on",
    "PLATFORMS": "build images for these, such as linux/amd64,linux/arm64",
    "RUNTIME_BASE, BUILD_BASE": "build on these images, such as Red Hat's; both have one Python",
    "REGISTRY": "where to push: HOST[:PORT][/PATH]; by default, beside the kind cluster",
    "KEYS": "the folder of the keys that sign a release; by default build/keys",
    "COSIGN_PASSWORD": "the passphrase of these keys",
    "BUNDLE_IMG, CATALOG_IMG": "a release's OLM images that are in a registry already",
    "PROJECT": "the folder of another operator in the same repository",
}
PROGRAM = click.version_option(package_name="kopf-kit", prog_name="kopf-kit")(
    Program(
        "kopf-kit",
        COMMANDS,
        VARIABLES,
        help="Write, package, test and release Kubernetes operators in Python.",
        epilog='Completion: eval "$(_KOPF_KIT_COMPLETE=bash_source kopf-kit)"; zsh and fish alike.',
    )
)


def main() -> int:
    """Run the command that the arguments name; return its exit code."""
    return run(PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
