"""The machine in front of you: everything that can be read off it is read off it.

The stack is `system`: what the distribution installed.
"""

import shlex
import shutil

from reframe.core.exceptions import ConfigError

from assay import detect, machine, sites

REPOSITORY = sites.repository(__file__)


def stack():
    """The stack `system`, with a feature for each program that is really there."""
    programs = detect.programs()
    features = list(programs)
    extras = {"provenance": "packages of the distribution"}
    for key, value in (
        ("openmpi_version", detect.openmpi_version()),
        ("ucx_version", detect.ucx_version()),
        ("netpipe_command", programs.get("netpipe")),
        ("osu_version", detect.osu_version() if "osu" in programs else None),
    ):
        if value:
            extras[key] = value
    classes, subtypes = detect.btio()
    if classes:
        features.append("btio")
        extras.update(btio_classes=classes, btio_subtypes=subtypes)
    python, ports = REPOSITORY / ".venv/bin/python", REPOSITORY / ".cache/osu-py"
    if python.exists() and (ports / "osu_latency.py").exists():
        features.append("osu-py")
        extras["osu_py_command"] = (
            f"{shlex.quote(str(python))} {shlex.quote(str(ports))}/osu_{{benchmark}}.py"
        )
    return {"name": "system", "features": features, "extras": extras}


if not shutil.which("mpirun"):
    raise ConfigError(
        f"{__file__}: no MPI: mpirun is not on PATH; type `make setup`, "
        "or load the module of your MPI and try again"
    )

site_configuration = machine.configuration(
    __file__, "this machine, with the packages of its distribution", stack()
)
