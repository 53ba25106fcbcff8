"""`kopf-kit dev` starts the operator again after a change, and outlives its mistakes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CALL = """
import sys
from pathlib import Path
from kopf_kit.commands import dev
from kopf_kit.rig import command
folder = Path(sys.argv[1])
sys.exit(command.execute(lambda: dev.repeat([sys.executable, str(folder / "op.py")], folder)))
"""
RUNS = "print('version {}', flush=True)\nimport time\ntime.sleep(300)\n"


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_a_change_starts_it_again_and_a_mistake_is_only_told(tmp_path: Path) -> None:
    source, log = tmp_path / "op.py", tmp_path / "log"
    source.write_text(RUNS.format(1))
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", CALL, str(tmp_path)], stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(log, "version 1")
        time.sleep(1)  # until its files are watched
        source.write_text("def mistaken(:\n")
        wait_for(log, "SyntaxError")
        wait_for(log, "the operator ended (1); a change of its code starts it")
        source.write_text(RUNS.format(2))
        wait_for(log, "version 2")
        assert "op.py changed: the operator starts again" in log.read_text()

        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
