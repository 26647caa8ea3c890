"""The rules that a lock, its manifest and the site must fulfil; the checks do not need Spack.

Each fault is one line that names the file and the key. All faults have the same remedy: solve
again. If something must be changed before, the line says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from assay.locks.lockfile import Lock, Node, edges, label
from assay.locks.manifest import Manifest, Setting, parse
from assay.locks.spec import Spec, architecture

#: The variants of UCX that MPI on GPUs and InfiniBand needs to avoid a silent fallback. All of them
#: are off by default in the recipe.
UCX_ON_GPUS = parse("UCX", "+cuda+gdrcopy+verbs+rc+ud+dc+mlx5_dv+rdmacm+cma+thread_multiple")
#: Spack itself finds the C library of the machine that solves; no packages.yaml lists it.
_LIBC = ("glibc", "musl")


def hashes(lock: Lock) -> Iterator[str]:
    """Every node has the hash of its content, and the graph is whole."""
    for key, node in lock.nodes.items():
        where = f"{lock.file}: concrete_specs:{key}"
        if node["hash"] != key:
            yield f"{where}: hash: is {node['hash']} in {node['name']} itself"
        content = lock.hash_of(node)
        if content != node["hash"]:
            yield (
                f"{where}: hash: content of {node['name']}@{node['version']} has hash {content}: "
                "it was edited after solving"
            )
        for edge in edges(node):
            target = lock.nodes.get(edge["hash"])
            if target is None:
                yield (
                    f"{where}: dependencies: {edge['name']}/{edge['hash'][:7]} of {node['name']} "
                    "is not in the lock"
                )
            elif target["name"] != edge["name"]:
                yield f"{where}: dependencies: {edge['name']} of {node['name']} is {label(target)}"
    used: set[str] = set()
    for text, key in lock.roots:
        if key not in lock.nodes:
            yield f"{lock.file}: roots: {text!r}: {key} is not in the lock"
        else:
            used |= {key, *lock.below(key)}
    for key in sorted(set(lock.nodes) - used):
        yield f"{lock.file}: concrete_specs:{key}: no root needs {label(lock.nodes[key])}"


def roots(lock: Lock, manifest: Manifest) -> Iterator[str]:
    """The specs of the manifest are the roots of the lock, and each root fulfils its spec."""
    wanted = {}
    for where, text in manifest.specs:
        spec = parse(where, text)
        # Spack leaves the namespace out when it writes a root.
        wanted[replace(spec, namespace=None)] = (where, text, spec)
    had: set[Spec] = set()
    for text, key in lock.roots:
        spec = parse(f"{lock.file}: roots", text)
        had.add(spec)
        if spec not in wanted:
            yield f"{lock.file}: roots: {text!r} is not in {manifest.file}"
        node = lock.nodes.get(key)
        lacks = unmet(lock, node, wanted[spec][2] if spec in wanted else spec) if node else []
        if node and lacks:
            yield f"{lock.file}: roots: {text!r}: {label(node)} lacks {' '.join(lacks)}"
    for spec, (where, text, _) in wanted.items():
        if spec not in had:
            yield f"{where}: {text!r} is no root of {lock.file}"


def requirements(lock: Lock, manifest: Manifest) -> Iterator[str]:
    """Each node of a package or virtual package fulfils its ``packages: <name>: require``."""
    for setting in manifest.settings("all", "require"):
        yield (
            f"{setting.where}: any package's own require replaces it; "
            "use all:target or all:prefer, or require it for each package"
        )
    for package in manifest.packages():
        # No node has the name `all`. A virtual package has no node of its own, so the nodes that
        # provide it are checked.
        nodes = lock.named(package) or lock.providers(package)
        for setting in manifest.settings(package, "require"):
            texts, when = _options(setting)
            options = [parse(setting.where, text) for text in texts]
            for node in nodes:
                lacks = [unmet(lock, node, option) for option in options]
                if all(lacks) and not unmet(lock, node, when):
                    yield (
                        f"{setting.where}: {' or '.join(texts)} does not hold in {lock.file}: "
                        f"{label(node)} lacks {_least(lacks)}"
                    )


def externals(lock: Lock, manifest: Manifest) -> Iterator[str]:
    """Externals of the lock are those of the site, and what the site has is not built."""
    for node in lock.nodes.values():
        listed = manifest.settings(node["name"], "externals")
        where = f"{lock.file}: concrete_specs:{node['hash']}"
        key = f"packages:{node['name']}:externals"
        if "external" not in node:
            for setting in manifest.settings(node["name"], "buildable")[:1]:
                if setting.value is False:
                    yield f"{where}: {label(node)} is to be built, but {setting.where} is false"
        elif not listed:
            if node["name"] not in _LIBC:
                yield f"{where}: external {label(node)} is in no {key} of the site"
        else:
            faults = [_external(lock, node, setting) for setting in listed]
            if all(faults):
                yield (
                    f"{where}: external {label(node)} is not that of {listed[0].where}: "
                    f"{_least(faults, ', ')}"
                )


def hardware(lock: Lock, manifest: Manifest) -> Iterator[str]:
    """Packages that are built are built for the processors and GPUs of the site."""
    targets = manifest.settings("all", "target")
    gpus = {
        (setting.where, values)
        for setting in manifest.settings("all", "prefer")
        if isinstance(setting.value, str)
        for name, _, values in parse(setting.where, setting.value).variants
        if name == "cuda_arch"
    }
    for node in lock.nodes.values():
        if "external" in node:
            continue
        target = architecture(node, "target")
        if targets and target not in [setting.value for setting in targets]:
            yield (
                f"{lock.file}: concrete_specs:{node['hash']}: {label(node)} is for {target}, not "
                f"for what {targets[0].where} has"
            )
        have = node["parameters"].get("cuda_arch")
        for where, values in sorted(gpus):
            if have is not None and set(have) != values:
                yield (
                    f"{lock.file}: concrete_specs:{node['hash']}: {label(node)} has cuda_arch "
                    f"{','.join(map(str, have))}, {where} has {','.join(sorted(values))}"
                )


def pins(lock: Lock, pinned: Mapping[str, Mapping[str, str]], pins_file: str) -> Iterator[str]:
    """The lock was solved by the pinned Spack; another Spack gives other hashes."""
    for key in ("version", "commit"):
        have, want = lock.spack.get(key), pinned["spack"][key]
        if have != want:
            yield f"{lock.file}: spack:{key}: is {have}, {pins_file} has {want}"


def iron(lock: Lock) -> Iterator[str]:
    """Rules that hold for every manifest; a violation would show only as slow transfers."""
    cuda = bool(lock.named("cuda")) or any(
        node["parameters"].get("cuda") is True for node in lock.nodes.values()
    )
    for node in lock.named("openmpi"):
        where = f"{lock.file}: concrete_specs:{node['hash']}: {label(node)}"
        if "ucx" not in _listed(node["parameters"].get("fabrics")):
            yield f"{where} lacks fabrics=ucx; require it in packages:openmpi"
        if "external" not in node and "ucx" not in {edge["name"] for edge in edges(node)}:
            yield f"{where} does not depend on ucx; require fabrics=ucx in packages:openmpi"
        if cuda and "external" not in node and node["parameters"].get("cuda") is not True:
            yield f"{where} lacks +cuda; require it in packages:openmpi"
    for node in lock.named("ucx") if cuda else ():
        where = f"{lock.file}: concrete_specs:{node['hash']}: {label(node)}"
        lacks = UCX_ON_GPUS.unmet(node)
        if lacks:
            yield f"{where} lacks {' '.join(lacks)}; require it in packages:ucx"
        needs = {"cuda", "gdrcopy"} - {edge["name"] for edge in edges(node)}
        if "external" not in node and needs:
            yield (
                f"{where} does not depend on {' and '.join(sorted(needs))}; require "
                f"{' '.join('+' + name for name in sorted(needs))} in packages:ucx"
            )


def unmet(lock: Lock, node: Node, spec: Spec) -> list[str]:
    """The parts of a spec that a node and its dependencies do not fulfil, in Spack's syntax."""
    lacks = spec.unmet(node)
    name = spec.name or node["name"]
    if node["name"] != name and node not in lock.providers(name):
        lacks.insert(0, name)
    for virtuals, direct, wanted in sorted(spec.dependencies, key=str):
        near = [edge for edge in edges(node) if virtuals <= set(edge["parameters"]["virtuals"])]
        if direct or virtuals:
            candidates = [lock.nodes[edge["hash"]] for edge in near if edge["hash"] in lock.nodes]
        else:
            candidates = [lock.nodes[key] for key in lock.below(node["hash"])]
        if not any(not unmet(lock, each, wanted) for each in candidates):
            lacks.append(f"{'%' if direct else '^'}{wanted}")
    return lacks


def _options(setting: Setting) -> tuple[list[str], Spec]:
    """The specs of which a node must fulfil one, and the condition under which it must."""
    value: dict[str, Any] = (
        {"spec": setting.value} if isinstance(setting.value, str) else setting.value
    )
    texts = value.get("one_of") or value.get("any_of") or [value.get("spec", "")]
    return texts, parse(setting.where, value.get("when", ""))


def _external(lock: Lock, node: Node, setting: Setting) -> list[str]:
    """How an external of a lock differs from one that the site has; empty if they agree."""
    value, have = setting.value, node["external"]
    spec = parse(setting.where, value["spec"])
    # An external has one exact version, even if its spec is written without the `=`.
    exact = Spec(
        spec.name,
        spec.namespace,
        frozenset(f"={version.lstrip('=')}" for version in spec.versions),
        spec.variants,
        spec.architecture,
    )
    faults = [f"the site has {lack}" for lack in unmet(lock, node, exact)]
    if "prefix" in value and value["prefix"].rstrip("/") != have["path"].rstrip("/"):
        faults.append(f"prefix is {have['path']}, the site has {value['prefix']}")
    if (value.get("modules") or None) != (have.get("module") or None):
        faults.append(f"modules are {have.get('module')}, the site has {value.get('modules')}")
    if value.get("extra_attributes", {}) != have.get("extra_attributes", {}):
        faults.append("extra_attributes (compilers, flags) differ")
    return faults


def _least(attempts: list[list[str]], between: str = " ") -> str:
    """The attempt that failed in the fewest points."""
    return between.join(sorted(attempts, key=len)[0])


def _listed(parameter: Any) -> list[Any]:
    return parameter if isinstance(parameter, list) else [parameter]
