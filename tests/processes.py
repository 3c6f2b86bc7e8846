"""Processes that tests start: a script with options, whose last line is its answer in JSON."""

import json
import os
import socket
import subprocess
import sys

# How such a script begins: devices, and two processes if it is one of them.
BEGIN = """
import json, sys
import jax
options = json.loads(sys.argv[1])
jax.config.update("jax_num_cpu_devices", options.get("devices", 1))
if "process" in options:
    jax.distributed.initialize(options["coordinator"], 2, options["process"])
import ntkmmd_jax as ntk
"""


def launch(script, **options):
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + script, json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )


def launch_two(script, **options):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    return [launch(script, coordinator=coordinator, process=i, **options) for i in (0, 1)]


def answer(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])  # Gloo talks before it
