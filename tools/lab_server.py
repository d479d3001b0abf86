"""JupyterLab over one folder, for tests in a real browser: no token, no news, no other origin."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

OPTIONS = ["--no-browser", "--allow-root", "--expose-app-in-browser", "--IdentityProvider.token="]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def lab(folder: Path):
    """The address of a JupyterLab that serves the folder, as long as the context lasts."""
    port = free_port()
    quiet = folder / ".settings" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text(
        '{"fetchNews": "false", "checkForUpdates": false}', "utf8")
    env = os.environ | {"JUPYTERLAB_SETTINGS_DIR": str(folder / ".settings"),
                        "JUPYTERLAB_WORKSPACES_DIR": str(folder / ".workspaces"),
                        "JUPYTER_RUNTIME_DIR": str(folder / ".runtime"),
                        "JUPYTER_DATA_DIR": str(folder / ".data")}  # fmt: skip
    log = (folder / "lab.log").open("wb")
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", f"--port={port}", f"--ServerApp.root_dir={folder}",
         *OPTIONS], stdout=log, stderr=log, env=env)  # fmt: skip
    root = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{root}/api", 60)
        yield root
    finally:
        server.terminate()
        server.wait(20)
        log.close()


def _wait(address: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
