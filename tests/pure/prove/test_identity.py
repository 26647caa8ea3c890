"""Machines of many kinds state themselves: each part is named, or unknown with the reason.

The trees have the form of real ones: ``/proc/cpuinfo`` of archspec's targets, the rate of a port as
Linux's drivers/infiniband/core/sysfs.c writes it, the outputs of the programs as their documents
show them. Nobody recorded a whole machine.
"""

import pytest
from shell import ROOT

from assay.judge import hardware
from assay.prove import counters, identity
from assay.prove.identity import Part, Stated

KNOWN = hardware(ROOT / "site-config" / "any")
AVX = "fpu sse4_2 avx avx2 fma"
AVX512 = f"{AVX} avx512f avx512dq avx512cd avx512bw avx512vl"
VNNI = f"{AVX512} avx512_vnni"
ZEN4 = f"{VNNI} avx512_bf16"
SAPPHIRE = f"{ZEN4} avx512_fp16 amx_bf16 amx_tile"
NEON = "fp asimd evtstrm aes"
SVE2 = f"{NEON} sve sve2 svebf16"


def x86(vendor, numbers, name, flags):
    family, model, stepping = numbers.split("/")
    return {
        "/proc/cpuinfo": f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: {name}\nstepping\t: {stepping}\nflags\t\t: {flags}"
    }


def intel(model, stepping, name, flags):
    return x86("GenuineIntel", f"6/{model}/{stepping}", f"Intel(R) Xeon(R) {name}", flags)


def amd(family, model, name, flags=AVX):
    return x86("AuthenticAMD", f"{family}/{model}/1", f"AMD {name}", flags)


def arm(implementer, part, features, vendor="", product=""):
    return {
        "/proc/cpuinfo": f"Features\t: {features}\nCPU implementer\t: {implementer}\n"
        f"CPU part\t: {part}",
        "/sys/class/dmi/id/sys_vendor": vendor,
        "/sys/class/dmi/id/product_name": product,
    }


def port(name, rate, layer="InfiniBand", state="4: ACTIVE", ids=("0x15b3", "0x101b")):
    folder = f"/sys/class/infiniband/{name}"
    return {
        f"{folder}/ports/1/rate": rate,
        f"{folder}/ports/1/link_layer": layer,
        f"{folder}/ports/1/state": state,
        f"{folder}/device/vendor": ids[0],
        f"{folder}/device/device": ids[1],
    }


def driver(*models):
    path = "/proc/driver/nvidia/gpus/0000:{:02x}:00.0/information"
    return {path.format(7 + n): f"Model: \t\t {model}" for n, model in enumerate(models)}


def slot(address, code, speed, width, above=None):
    folder = f"/sys/bus/pci/devices/{address}"
    of_both = {"": (speed, width), "../": above or (speed, width)}
    ends = {f"{folder}/{e}max_link_speed": f"{s} GT/s PCIe" for e, (s, _) in of_both.items()}
    widths = {f"{folder}/{e}max_link_width": f"{w}" for e, (_, w) in of_both.items()}
    return {f"{folder}/class": code, **ends, **widths}


def smi(*models):
    uuid = "12345678-1234-1234-1234-12345678901"
    lines = (f"GPU {n}: {model} (UUID: GPU-{uuid}{n})" for n, model in enumerate(models))
    return {"nvidia-smi -L": "\n".join(lines)}


ROCMINFO = """\
*******
Agent 2
*******
  Name:                    gfx90a
  Uuid:                    GPU-a8673551b40c6374
  Marketing Name:          AMD Instinct MI250X
"""
MI300A = "  Uuid:  GPU-1\n  Marketing Name:  AMD Instinct MI300A\n"
DMIDECODE = """\
Handle 0x0021, DMI type 17, 92 bytes
Memory Device
\tSize: 64 GB
\tForm Factor: DIMM
\tType: DDR5
\tType Detail: Synchronous Registered (Buffered)
\tSpeed: 4800 MT/s
\tConfigured Memory Speed: 4400 MT/s

Handle 0x0022, DMI type 17, 92 bytes
Memory Device
\tSize: No Module Installed
\tType: Unknown
\tSpeed: Unknown
"""

#: Machine -> what it states, and the names that are found; "" is unknown.
MACHINES = {
    "Milan, HDR, A100": (
        {
            **amd(25, 1, "EPYC 7763 64-Core Processor"),
            **port("mlx5_0", "200 Gb/sec (4X HDR)"),
            **driver(*["NVIDIA A100-SXM4-80GB"] * 4),
            **slot("0000:07:00.0", "0x030200", 16.0, 16),
        },
        "processor epyc-milan, gpu a100-sxm4-80gb, link infiniband-hdr, pcie pcie-4-x16",
    ),
    "Sapphire Rapids, NDR, H100": (
        {
            **intel(143, 8, "Platinum 8480+", SAPPHIRE),
            **port("mlx5_0", "400 Gb/sec (4X NDR)"),
            **smi(*["NVIDIA H100 80GB HBM3"] * 8),
            "dmidecode": DMIDECODE,
            **slot("0000:18:00.0", "0x030200", 32.0, 16),
            **slot("0000:02:00.0", "0x010802", 16.0, 4),
        },
        "processor sapphire-rapids, gpu h100-sxm5-80gb, link infiniband-ndr, memory ddr5-4400, "
        "pcie pcie-5-x16, disk nvme-pcie4-x4",
    ),
    "GH200 with Slingshot": (
        {
            **arm("0x41", "0xd4f", SVE2, "HPE", "HPE Cray EX254n"),
            **driver("NVIDIA GH200 480GB"),
            "/sys/class/net/hsn0/speed": "200000",
        },
        "processor grace-480gb, gpu gh200-96gb, link slingshot-11",
    ),
    "Grace": (
        arm("0x41", "0xd4f", SVE2, "NVIDIA", "Grace CPU Superchip"),
        "processor grace",
    ),
    "Graviton4": (arm("0x41", "0xd4f", SVE2, "Amazon EC2", "r8g.16xlarge"), "processor graviton4"),
    "Graviton3": (
        arm("0x41", "0xd40", f"{NEON} sve svebf16", "Amazon EC2", "hpc7g.16xlarge"),
        "processor graviton3",
    ),
    "Graviton2": (arm("0x41", "0xd0c", NEON, "Amazon EC2", "c6gn.16xlarge"), "processor graviton2"),
    "MI300A": (
        {**amd(25, 144, "Instinct MI300A Accelerator", ZEN4), "rocminfo": MI300A},
        "processor mi300a-cpu, gpu mi300a-128gb",
    ),
    "Skylake, EDR, V100": (
        {
            **intel(85, 4, "Gold 6148 CPU @ 2.40GHz", AVX512),
            **port("mlx5_0", "100 Gb/sec (4X EDR)"),
            **smi(*["Tesla V100-SXM2-32GB"] * 4),
        },
        "processor skylake-sp, gpu v100-sxm2-32gb, link infiniband-edr",
    ),
    "a Silver of Skylake with Omni-Path": (
        {
            **intel(85, 4, "Silver 4114 CPU @ 2.20GHz", AVX512),
            **port("hfi1_0", "100 Gb/sec (4X EDR)", ids=("0x8086", "0x24f0")),
        },
        "processor skylake-sp-one-unit, link omni-path-100",
    ),
    "Cascade Lake, ethernet only": (
        {
            **intel(85, 7, "Platinum 8268 CPU @ 2.90GHz", f"{AVX512} avx512_vnni"),
            "/sys/class/net/eth0/speed": "100000",
        },
        "processor cascade-lake-sp, link ethernet-100g",
    ),
    "A64FX": (arm("0x46", "0x001", f"{NEON} sve"), "processor a64fx"),
    "Slingshot, MI250X": (
        {
            **amd(25, 48, "EPYC 7A53 64-Core Processor"),
            "rocminfo": ROCMINFO,
            "/sys/class/cxi/cxi0/speed": "200000",
            "/sys/class/net/hsn0/speed": "200000",
        },
        "processor epyc-trento, gpu mi250x-gcd, link slingshot-11",
    ),
    "EFA": (
        {
            **intel(143, 8, "Platinum 8488C", SAPPHIRE),
            **port("rdmap79s0", "100 Gb/sec (4X EDR)", "Unspecified", ids=("0x1d0f", "0xefa1")),
            **smi("NVIDIA H100 80GB HBM3"),
        },
        "processor sapphire-rapids, link efa-v2-100g, gpu h100-sxm5-80gb",
    ),
    "RoCE": (
        {**amd(25, 17, "EPYC 9654", ZEN4), **port("mlx5_0", "200 Gb/sec (4X HDR)", "Ethernet")},
        "processor epyc-genoa, link roce-200g",
    ),
    "400 Gb/sec without its generation": (port("mlx5_0", "400 Gb/sec"), "link "),
    "POWER9": ({"/proc/cpuinfo": "cpu\t\t: POWER9, altivec supported"}, "processor power9"),
    # 6/167 is Rocket Lake, a processor of desktops without AMX.
    "a virtual machine with the flags of another processor": (
        intel(167, 1, "Processor @ 2.70GHz", f"{SAPPHIRE} hypervisor"),
        "processor ",
    ),
    "a Milan with AVX-512": (amd(25, 1, "EPYC 7763", ZEN4), "processor "),
    "a Sapphire Rapids whose hypervisor hides AVX-512": (
        intel(143, 8, "Platinum 8480+", f"{AVX} hypervisor"),
        "processor ",
    ),
    "Granite Rapids, which may be AP or SP": (intel(173, 1, "6900", SAPPHIRE), "processor "),
    "an unknown processor": (intel(250, 1, "7999", SAPPHIRE), "processor "),
    "an unknown GPU and an unknown link": (
        {**smi("NVIDIA X9000"), **port("mlx5_0", "1600 Gb/sec (4X GDR)")},
        "gpu , link ",
    ),
    "a port that is down, an interface without a cable, IP over InfiniBand": (
        {
            **port("mlx5_0", "10 Gb/sec (4X)", state="1: DOWN"),
            "/sys/class/net/eth0/speed": "-1",
            "/sys/class/net/ib0/speed": "100000",
        },
        "",
    ),
    "a GPU of PCIe 5 in a slot of PCIe 4": (
        slot("0000:07:00.0", "0x030200", 32.0, 16, (16.0, 16)),
        "pcie pcie-4-x16",
    ),
    "nothing": ({}, ""),
    "texts without sense": ({"/proc/cpuinfo": "cpu family\t: x"}, "processor "),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_each_part_of_a_machine_is_named_or_unknown(machine):
    seen, wanted = MACHINES[machine]
    found = {f"{part.stated.role} {part.name}" for part in identity.parts(seen, KNOWN)}
    assert found == {*filter(None, wanted.split(", "))}


def why(machine):
    return " | ".join(map(str, identity.parts(MACHINES[machine][0], KNOWN)))


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        ("Milan, HDR, A100", "gpu a100-sxm4-80gb: /proc/driver/nvidia/gpus/*/information says NVI"),
        ("a virtual machine with the flags of another processor",
         "processor unknown: /proc/cpuinfo says GenuineIntel 6/167/1; rocket-lake does not have "
         "its flags amx_bf16, avx512_bf16, avx512_fp16: these words contradict each other"),
        ("a Milan with AVX-512", "epyc-milan does not have its flags avx512_bf16, avx512_vnni"),
        ("a Sapphire Rapids whose hypervisor hides AVX-512",
         "it hides the flag avx512f, which sapphire-rapids has"),
        ("Granite Rapids, which may be AP or SP",
         "it may be granite-rapids-ap or granite-rapids-sp: name it in the extra hardware"),
        ("400 Gb/sec without its generation", "it may be infiniband-ndr or infiniband-xdr"),
        ("an unknown GPU and an unknown link",
         "says NVIDIA X9000; no part has this name: add an entry with this name (site-config/ha"),
    ],
)  # fmt: skip
def test_it_is_said_why_a_part_is_unknown_and_by_what_one_was_found(machine, says):
    assert says in why(machine)


def test_each_name_of_the_catalogue_finds_its_part():
    """Where a name is of several parts, the pattern of each tells them apart, or a site must."""
    for role, parts in KNOWN.items():
        for name, part in parts.items():
            for text in part.names:
                found = identity.named(
                    Stated(role, "a text", (text,), "", frozenset(part.flags)), parts
                )
                assert found.name == name or (part.where and not found.name) or found.name in alike(
                    parts, text
                ), (role, name)  # fmt: skip


def alike(parts, text):
    return [name for name, part in parts.items() if text in part.names and not part.where]


def test_a_place_names_only_what_is_alike_and_nothing_of_a_virtual_processor():
    two = {**smi("Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-40GB"), **amd(25, 1, "EPYC 7763")}
    assert identity.alike(identity.parts(two, KNOWN), "gpu", "processor", "memory") == {
        "processor": "epyc-milan"
    }
    virtual = amd(25, 1, "EPYC 7V73X", f"{AVX} hypervisor")
    assert [part.name for part in identity.parts(virtual, KNOWN)] == ["epyc-milan"]
    assert identity.alike(identity.parts(virtual, KNOWN), "processor") == {}


H100 = {
    "hardware": {"gpu": "h100-sxm5-80gb", "link": "infiniband-ndr", "processor": "sapphire-rapids"},
    "memory_bytes": 2**40,
    "network_device": "mlx5_0:1,mlx5_1:1",
}
HEALTHY = {
    **MACHINES["Sapphire Rapids, NDR, H100"][0],
    "/proc/meminfo": f"MemTotal: {0.984 * 2**30:.0f} kB",
    "/sys/devices/system/cpu/present": "0-223",
    # Ports that the partition does not use.
    **port("mlx5_8", "100 Gb/sec (2X HDR)"),
    "/sys/class/net/eth0/speed": "1000",
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        (smi("NVIDIA GH200 480GB"),
         "n1: the partition says gpu h100-sxm5-80gb, the node says NVIDIA GH200 480GB (nvi"),
        ({"/proc/meminfo": f"MemTotal: {2**30 // 40} kB"},
         "n1: the partition says 1024.0 GiB of memory (memory_bytes), the node has 25.6 GiB"),
        # One of sixteen modules is gone.
        ({"/proc/meminfo": f"MemTotal: {0.984 * 2**30 * 15 / 16:.0f} kB"}, "has 944.6 GiB"),
        ({"/sys/devices/system/cpu/present": "0-111"}, "says 224 processors, the node has 112"),
        (intel(106, 6, "Platinum 8358", VNNI),
         "says processor sapphire-rapids, the node says GenuineIntel 6/106/6 (/proc/cpuinfo)"),
        (port("mlx5_1", "200 Gb/sec (4X HDR)"),
         "says link infiniband-ndr, the node says InfiniBand 200 Gb/sec (4X HDR) (/sys/class/inf"),
        # The same bandwidth by other lanes.
        (port("mlx5_1", "400 Gb/sec (2X XDR)"), ""),
        (smi("NVIDIA X9000"), ""),
        ({"/proc/meminfo": "", "/sys/devices/system/cpu/present": ""}, ""),
    ],
)  # fmt: skip
def test_a_node_that_is_not_what_the_site_says_is_accused(change, says):
    found = identity.unlike("n1", {**HEALTHY, **change}, KNOWN, H100, 224)
    assert [says in line for line in found] == ([True] if says else [])
    assert all(line.nodes == ("n1",) for line in found)


def test_a_site_that_names_nothing_is_not_compared():
    assert identity.unlike("n1", HEALTHY, KNOWN, {}) == []
    own = {"gpu": {"mine": KNOWN["gpu"]["t4"].__class__(source="a datasheet of ours")}}
    said = {"hardware": {"gpu": "mine"}}
    assert identity.unlike("n1", HEALTHY, {**KNOWN, **own}, said) == []


def reading(seen):
    lines = [f"{path}:{line}" for path, text in seen.items() for line in text.split("\n")]
    return "\n".join(["[uptime]", "9.0 1.0", "[machine]", *lines, "[end]", ""])


def test_the_nodes_of_a_job_are_grouped_and_an_old_reading_says_nothing(tmp_path):
    plain = {
        path: text for path, text in HEALTHY.items() if path.startswith("/") and "pci" not in path
    }
    for host in ("n1", "n2"):
        (tmp_path / counters.FILES[0].replace("*", host)).write_text(reading(plain))
    other = {**plain, **driver("NVIDIA GH200 480GB")}
    (tmp_path / "health.n3.before").write_text(reading(other))
    (tmp_path / "health.n4.before").write_text("[uptime]\n9.0 1.0\n[end]\n")
    wrong, groups = identity.of_job(tmp_path, KNOWN, H100, 224)
    assert [line.nodes for line in wrong] == [("n3",)]
    assert [group["nodes"] for group in groups] == [["n1", "n2"], ["n3"], ["n4"]]
    assert "processor sapphire-rapids" in groups[0]["hardware"]
    assert "gpu gh200-96gb" in groups[1]["hardware"]
    assert groups[2]["parts"] == []


def test_a_part_says_what_it_was_found_by():
    stated = Stated("gpu", "nvidia-smi -L", ("NVIDIA T4",))
    assert str(Part(stated, "t4")) == "gpu t4: nvidia-smi -L says NVIDIA T4"
