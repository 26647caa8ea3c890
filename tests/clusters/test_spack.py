"""The Spack stack with the real Spack.

Needs $SPACK_ROOT and $ASSAY_SPACK_PACKAGES at the pinned commits, and $SPACK_PYTHON with clingo.
Skips without them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from assay import files
from assay.locks import Lock, LockError, Seal
from assay.sites import stacks

ROOT = Path(__file__).resolve().parents[2]
MAKE = "site-config/common/spack-make"
NEEDS = ("SPACK_ROOT", "ASSAY_SPACK_PACKAGES", "SPACK_PYTHON")
ABSENT = [name for name in NEEDS if name not in os.environ]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason=f"needs Spack: {', '.join(ABSENT)} not set"),
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files that the scripts read, in a place where the scripts may write."""
    copied = tmp_path / "checkout"
    copied.mkdir()
    (copied / ".venv").symlink_to(ROOT / ".venv")
    for name in ("ci", "site-config", "spack-repo", "src"):
        ignored = shutil.ignore_patterns(".spack-env", "__pycache__")
        shutil.copytree(ROOT / name, copied / name, ignore=ignored)
    for file in ROOT.glob("spack.*"):
        shutil.copy(file, copied)
    return copied


def run(
    checkout: Path, *command: str | Path, **variables: object
) -> subprocess.CompletedProcess[str]:
    keep = ("PATH", "HOME", *NEEDS)
    return subprocess.run(
        list(map(str, command)),
        cwd=checkout,
        env={
            **{name: os.environ[name] for name in keep},
            "ASSAY_SPACK_HOME": str(checkout / "home"),
            **{k: str(v) for k, v in variables.items()},
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def spack(checkout: Path, *arguments: str, env: str = ".") -> subprocess.CompletedProcess[str]:
    return run(
        checkout,
        Path(os.environ["SPACK_ROOT"]) / "bin/spack",
        *("--color", "never", "-e", checkout / env, "-C", checkout / MAKE, *arguments),
        SPACK_DISABLE_LOCAL_CONFIG=1,
        SPACK_USER_CACHE_PATH=checkout / "home/user-cache",
    )


def test_recipes_pass_spacks_audit(checkout: Path) -> None:
    recipes = checkout.glob("spack-repo/spack_repo/assay/packages/*/package.py")
    names = [path.parent.name.replace("_", "-") for path in recipes]
    done = spack(checkout, "audit", "packages", *names)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_whole_reference_lock_makes_views_and_environment_files(checkout: Path) -> None:
    done = run(checkout, "ci/spack-install.sh", "--fake", SITE="ibisco")
    assert done.returncode == 0, done.stdout + done.stderr
    lock = Lock(checkout / "spack.lock", "spack.lock")
    sealed = files.read_shape(checkout / "spack.lock.seal.yaml", Seal, LockError).views
    assert set(sealed) == {"default", "gpu", "diagnosis"}
    for view, held in sealed.items():
        frozen = json.loads((checkout / f"home/env/ibisco.{view}.json").read_text())
        # A fake package has one program, with the name of the package. Spack links no externals.
        programs = {each.name for folder in frozen["path"] for each in Path(folder).iterdir()}
        nodes = [lock.nodes[key] for key in held]
        assert programs == {node["name"] for node in nodes if "external" not in node}, view


def test_an_image_keeps_nothing_that_only_the_build_needed(checkout: Path) -> None:
    folder = "site-config/debian12/spack/env"
    for variables, kept in (({}, True), ({"GC": 1}, False)):
        done = run(checkout, "ci/spack-install.sh", "--fake", SITE="debian12", **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        places = [each.name.rpartition("-")[0] for each in (checkout / "home/opt").glob("*/*-*")]
        assert ("compiler-wrapper-1.1.0" in places) is kept
        assert "hpcc-1.5.0" in places
        view = checkout / folder / ".spack-env/view/default"
        programs = {each.name for each in view.glob("bin/*")}
        assert programs == {"hpcc", "hpl", "npb-btio", "osu-micro-benchmarks"}


def test_solving_anew_gives_the_same_lock_and_seal(checkout: Path) -> None:
    folder = checkout / "site-config/debian12/spack/env"
    before = {path.name: path.read_text() for path in folder.iterdir()}
    done = run(checkout, "ci/spack-relock.sh", SITE="debian12")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "spack.lock").read_text() == before["spack.lock"]
    seals = [yaml.safe_load((folder / "spack.lock.seal.yaml").read_text())]
    seals.append(yaml.safe_load(before["spack.lock.seal.yaml"]))
    assert {**seals[0], "date": None} == {**seals[1], "date": None}
    assert "the same versions and variants" in done.stdout

    packages = checkout / "site-config/debian12/spack/packages.yaml"
    packages.write_text(packages.read_text().replace("classes:=S,W,A ", "classes:=S,W "))
    done = run(checkout, "ci/spack-relock.sh", SITE="debian12")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith(("- ", "+ "))] == [
        "- npb-btio: classes:=A,S,W",
        "+ npb-btio: classes:=S,W",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  - $host\n", "  - hpl@99\n", "==> Error: "),
        (
            "  - ..\n",
            "  - ..\n  - ../../../../../outside\n",
            "outside is outside of the repository",
        ),
    ],
)
def test_a_manifest_that_cannot_be_solved_leaves_no_lock(
    checkout: Path, old: str, new: str, said: str
) -> None:
    (checkout.parent / "outside").mkdir()
    site = checkout / "site-config/new/spack"
    shutil.copytree(checkout / "site-config/debian12/spack", site)
    for file in site.glob("env/spack.lock*"):
        file.unlink()
    manifest = site / "env/spack.yaml"
    manifest.write_text(manifest.read_text().replace(old, new))
    done = run(checkout, "ci/spack-relock.sh", SITE="new")
    assert done.returncode == 1
    assert said in done.stderr and "the lock is as it was" in done.stderr
    assert not list(site.glob("env/spack.lock*"))


def test_externals_of_other_versions_are_named(checkout: Path) -> None:
    path = checkout / "site-config/debian12/spack/env/spack.lock"
    lock = json.loads(path.read_text())
    for node in lock["concrete_specs"].values():
        if node["name"] == "gmake":
            node["version"] = "99.1"
    path.write_text(json.dumps(lock))
    settings = checkout / "site-config/common/spack/concretizer.yaml"
    settings.write_text("concretizer: {unify: false}\n")
    folder = "site-config/debian12/spack/env"
    done = spack(checkout, "python", "ci/spack-lock.py", "here", env=folder)
    assert done.returncode == 1, done.stderr
    for said in ("concretizer: Spack reads other", "gmake@99.1: below /usr is 4"):
        assert said in done.stdout
    assert "packages: " not in done.stdout


def test_a_machine_without_the_externals_is_told_so(checkout: Path) -> None:
    done = run(checkout, "ci/spack-install.sh", SITE="h100")
    assert done.returncode == 1
    assert "cuda@12.8.1: /usr/local/cuda-12.8 does not exist here" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which root may")
def test_a_full_disk_is_called_so(checkout: Path) -> None:
    home = checkout / "home"
    home.mkdir()
    # The mount is in its own mount namespace, so it disappears with the last process in it.
    done = run(
        checkout,
        *("unshare", "-m", "sh", "-c"),
        f"mount -t tmpfs -o size=200k none {home} && exec ci/spack-install.sh --fake",
        SITE="debian12",
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no mounts here: " + done.stderr.splitlines()[0])
    assert done.returncode == 1
    assert "full" in done.stderr.splitlines()[-1] and "ASSAY_SPACK_HOME" in done.stderr


# --- Spack's own command, with the settings of a site ---------------------------------------------


class Plain:
    """Spack as a person of a site calls it: with the site's settings, and none of our scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        builtin = Path(os.environ["ASSAY_SPACK_PACKAGES"]) / "repos/spack_repo/builtin"
        self.configure("repos", {"builtin": str(builtin)})
        self.store("opt")

    def configure(self, section: str, content: object) -> None:
        file = self.folder / f"settings/{section}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump({section: content}))

    def store(self, name: str) -> Path:
        """Where the site installs from now on."""
        self.configure("config", {"install_tree": {"root": str(self.folder / name)}})
        return self.folder / name

    def __call__(self, cwd: Path, *arguments: str) -> str:
        done = subprocess.run(
            [f"{os.environ['SPACK_ROOT']}/bin/spack", "--color", "never", *arguments],
            cwd=cwd,
            env={
                **{name: os.environ[name] for name in ("PATH", "HOME", "SPACK_PYTHON")},
                "SPACK_SYSTEM_CONFIG_PATH": str(self.folder / "none"),
                "SPACK_USER_CONFIG_PATH": str(self.folder / "settings"),
                "SPACK_USER_CACHE_PATH": str(self.folder / "cache"),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def path(self, cwd: Path) -> list[str]:
        """What comes before PATH when the environment in a folder is activated."""
        said = self(cwd, "env", "activate", "--sh", ".")
        (path,) = re.findall(r"^export PATH=(.*);$", said, re.MULTILINE)
        return [each for each in path.split(":") if each not in os.environ["PATH"].split(":")]


@pytest.fixture
def plain(tmp_path: Path) -> Plain:
    return Plain(tmp_path / "site")


def installed(store: Path) -> set[str]:
    return {each.parent.parent.name for each in store.glob("**/.spack/spec.json")}


def test_plain_spack_installs_the_reference_lock_where_the_site_says(
    checkout: Path, plain: Plain
) -> None:
    before = {path.name: path.read_bytes() for path in checkout.glob("spack.*")}
    plain(checkout, "-e", ".", "install", "--fake")
    store = plain.folder / "opt"
    lock = Lock(checkout / "spack.lock", "spack.lock")
    assert len(installed(store)) == len([n for n in lock.nodes.values() if "external" not in n])
    assert {path.name: path.read_bytes() for path in checkout.glob("spack.*")} == before
    assert {path.name for path in checkout.glob(".*")} == {".venv", ".spack-env"}
    assert not list(checkout.glob("*$*"))
    assert plain.path(checkout)[0] == f"{checkout}/.spack-env/view/default/bin"

    site_file = checkout / "site-config/ibisco/reframe.py"
    for view in ("default", "gpu", "diagnosis"):
        stack = stacks.spack(site_file, checkout / ".spack-env/view" / view, view)
        locked = stacks.spack(site_file, checkout / "spack.lock", view)
        assert (stack["name"], stack["features"]) == (locked["name"], locked["features"])
        assert stack["extras"]["libraries"] == [str(store)]
        versions = {"provenance": "", "libraries": []}
        assert {**stack["extras"], **versions} == {**locked["extras"], **versions}

    # What the site has installed is not installed again.
    plain.configure("upstreams", {"shared": {"install_tree": str(store)}})
    mine = plain.store("mine")
    plain(checkout, "-e", ".", "install", "--fake")
    assert installed(mine) == set()


def test_a_sites_own_environment_takes_our_programs_and_its_own_mpi(
    checkout: Path, plain: Plain, tmp_path: Path
) -> None:
    (tmp_path / "mpi/bin").mkdir(parents=True)
    external = {"spec": "openmpi@5.0.8 fabrics=ucx ~cuda", "prefix": str(tmp_path / "mpi")}
    own = tmp_path / "own"
    own.mkdir()
    document = {
        # the second for a compiler and build tools, which a site names in its own settings
        "include": [
            str(checkout / "site-config/common" / each) for each in ("spack", "spack-debian12")
        ],
        "packages": {"openmpi": {"buildable": False, "externals": [external]}},
        "specs": ["openmpi", "$host"],
        "view": {"default": {"root": str(tmp_path / "programs")}},
    }
    (own / "spack.yaml").write_text(yaml.safe_dump({"spack": document}))
    plain.configure("concretizer", {"reuse": True})
    plain(own, "-e", ".", "install", "--fake")
    assert "reuse: true" in plain(own, "-e", ".", "config", "get", "concretizer")
    nodes = Lock(own / "spack.lock", "spack.lock").nodes.values()
    ours = {node["name"]: node["version"] for node in nodes if node["namespace"] == "assay"}
    assert {"npb-btio", "hpcc", "hpl"} <= set(ours)
    assert plain.path(own)[0] == f"{tmp_path}/programs/bin"
    stack = stacks.spack(own / "reframe.py", tmp_path / "programs")
    assert {"mpi", "osu", "btio", "hpcc", "hpl"} <= set(stack["features"])
    assert stack["extras"]["openmpi_version"] == "5.0.8"
    assert f":{tmp_path}/mpi/bin:$PATH" in stack["env_vars"][0][1]
