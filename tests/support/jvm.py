"""JVMs and servers beside the tests: what of them CDC_LAB holds, and how they start."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import Popen
from typing import IO, Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

JAVA = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if os.environ.get("JAVA_HOME") else "java"


def lab_folder(*parts: str, holds: str) -> Path | None:
    """The folder `parts` in the folder that CDC_LAB names; None where it holds no file `holds`."""
    lab = os.environ.get("CDC_LAB")
    folder = Path(lab or "", *parts)
    return folder if lab and any(folder.glob(holds)) else None


def start_jvm(classpath: str, options: list[str], printed: IO[str]) -> tuple[JavaGateway, Popen]:
    """A JVM that Python calls into, and its process. It ends when this process does.

    Args:
        classpath: jars beside py4j's own.
        options: of the `java` command.
        printed: takes what it prints.
    """
    [py4j_jar] = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
    port, token, process = launch_gateway(
        jarpath=str(py4j_jar),
        classpath=classpath,
        javaopts=options,
        java_path=JAVA,
        die_on_exit=True,
        enable_auth=True,
        redirect_stdout=printed,
        redirect_stderr=printed,
        return_proc=True,
    )
    # Java objects stay until the JVM ends: nothing is sent to a JVM that was killed
    parameters = GatewayParameters(
        port=port, auth_token=token, auto_convert=True, enable_memory_management=False
    )
    return JavaGateway(gateway_parameters=parameters), process


def texts(gateway: JavaGateway, *values: str) -> Any:
    """A Java array of strings."""
    array = gateway.new_array(gateway.jvm.java.lang.String, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array
