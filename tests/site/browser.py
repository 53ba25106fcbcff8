"""A Chromium without a window, driven by the WebDriver protocol: https://www.w3.org/TR/webdriver2/."""

import contextlib
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

_OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]


class Browser:
    """A session of a driver."""

    def __init__(self, driver: str) -> None:
        self._session = driver
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": _OPTIONS},
            "goog:loggingPrefs": {"performance": "ALL"},
        }
        answer = self._post("/session", {"capabilities": {"alwaysMatch": capabilities}})
        self._session = f"{driver}/session/{answer['sessionId']}"

    def open(self, address: str) -> None:
        """Open a page, and wait until it is loaded."""
        self._post("/url", {"url": address})

    def resize(self, width: int, height: int) -> None:
        """Give the window this size in pixels."""
        self._post("/window/rect", {"width": width, "height": height})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page; return what it returns, awaited."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def requested(self) -> list[str]:
        """Return the addresses that were asked for since the last call, by pages and scripts."""
        entries = self._post("/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        """End the browser; a driver that ends alone leaves it running."""
        self._send(urllib.request.Request(self._session, method="DELETE"))  # noqa: S310

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        return self._send(urllib.request.Request(self._session + path, data, kind))  # noqa: S310

    def _send(self, request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
            return json.load(response)["value"]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Yield a browser; it ends with the context."""
    with subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as driver:
        assert driver.stdout is not None
        try:
            said = (re.search(r"successfully on port (\d+)", line) for line in driver.stdout)
            port = next(match[1] for match in said if match)
            with contextlib.closing(Browser(f"http://127.0.0.1:{port}")) as started:
                yield started
        finally:
            driver.terminate()
