"""The commands of the Makefile: `python -m hack <command>`.

Each command is a function here that calls one of the package's modules.
"""

import argparse
import signal
import sys
from typing import NoReturn

from bench import run as benchmark
from hack.commands import demo, deploy, e2e, release_bundle
from hack.pack import image
from hack.rig import cluster, engine, environment, golang, olm, preflight, public_images, tools
from hack.rig.run import HackError, stop_all
from hack.rig.steps import say


def _preflight(_: argparse.Namespace) -> None:
    preflight.check(preflight.TESTS)
    if not cluster.is_existing():
        engine.up()
        public_images.are_in_reach()


def _cluster(arguments: argparse.Namespace) -> None:
    if arguments.action == "down":
        cluster.down()
        return
    say(f"The cluster answers: export KUBECONFIG={cluster.up().kubeconfig}")


def _image(arguments: argparse.Namespace) -> None:
    if arguments.action == "build":
        print(image.build())
    else:
        print(image.push())


def _tool(arguments: argparse.Namespace) -> None:
    golang.programs([name for name in arguments.names if name not in tools.NAMES])
    for name in arguments.names:
        print(tools.path(name) if name in tools.NAMES else golang.program(name))


def _demo(_: argparse.Namespace) -> None:
    demo.run()


def _deploy(_: argparse.Namespace) -> None:
    deploy.deploy()


def _undeploy(_: argparse.Namespace) -> None:
    deploy.undeploy()


def _crd(arguments: argparse.Namespace) -> None:
    if arguments.action == "install":
        deploy.install_crd()
    else:
        deploy.uninstall_crd()


def _olm(arguments: argparse.Namespace) -> None:
    if arguments.action == "down":
        olm.down()
    else:
        olm.report(olm.up())


def _run(arguments: argparse.Namespace) -> None:
    deploy.run(arguments.rest)


def _e2e(arguments: argparse.Namespace) -> int:
    return e2e.run(arguments.rest)


def _e2e_olm(arguments: argparse.Namespace) -> int:
    return e2e.run_olm(arguments.rest)


def _release_bundle(arguments: argparse.Namespace) -> None:
    release_bundle.run(arguments.version)


def _bench(arguments: argparse.Namespace) -> int:
    return benchmark.main(arguments.rest)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hack", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    command = commands.add_parser("preflight", help="tell what this machine lacks for the tests")
    command.set_defaults(run=_preflight)

    command = commands.add_parser("cluster", help="make or delete the kind cluster")
    command.add_argument("action", choices=("up", "down"))
    command.set_defaults(run=_cluster)

    command = commands.add_parser("image", help="build or push the operator's image (IMG=…)")
    command.add_argument("action", choices=("build", "push"))
    command.set_defaults(run=_image)

    command = commands.add_parser(
        "tool", help="print where tools are, built where they are missing"
    )
    command.add_argument(
        "names", nargs="+", choices=sorted({*tools.NAMES, *golang.PROGRAMS, *golang.KUBERNETES})
    )
    command.set_defaults(run=_tool)

    for name, run, text in (
        ("demo", _demo, "run the main job from nothing to the end"),
        ("deploy", _deploy, "install the operator by Helm (IMG=…)"),
        ("undeploy", _undeploy, "remove the operator; Messages stay"),
    ):
        commands.add_parser(name, help=text).set_defaults(run=run)

    command = commands.add_parser("crd", help="put the CRD into the cluster, or remove it")
    command.add_argument("action", choices=("install", "uninstall"))
    command.set_defaults(run=_crd)

    command = commands.add_parser("olm", help="put OLM into the cluster, or remove it")
    command.add_argument("action", choices=("up", "down"))
    command.set_defaults(run=_olm)

    command = commands.add_parser("release-bundle", help="lay out what community-operators gets")
    command.add_argument("version")
    command.set_defaults(run=_release_bundle)

    for name, follow, text in (
        ("run", _run, "run the operator here, against the cluster"),
        ("e2e", _e2e, "run the end-to-end tests"),
        ("e2e-olm", _e2e_olm, "run those by OLM alone"),
        ("bench", _bench, "measure the operator beside its peers"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("rest", nargs="*", metavar="-- OPTION", help="passed on")
        command.set_defaults(run=follow)

    return parser


def main() -> int:
    """Run a command; end with a readable message where it fails."""
    signal.signal(signal.SIGTERM, _interrupt)
    environment.scrub()
    arguments = _parser().parse_args()
    try:
        return arguments.run(arguments) or 0
    except HackError as error:
        say(f"\nerror: {error}")
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted; what is done so far is kept: the same command goes on from there")
        return 130
    finally:
        stop_all()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
