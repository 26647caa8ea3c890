"""Ports of InfiniBand and RoCE: what the kernel says of them, and what the pre-check finds."""

from pathlib import Path

import pytest
from real_outputs import DATA

from assay.fleet import census, node_limits
from assay.fleet.node import provenance

SYSFS = {
    path.name.removesuffix(".txt"): path.read_text() for path in (DATA / "sysfs").glob("*.txt")
}
RXE, DOWN, MLX5 = (SYSFS[name] for name in ("rxe", "rxe.down", "mlx5.not-recorded"))
RATE, GID = "2.5 Gb/sec (1X SDR)", "fe80:0000:0000:0000:ecd0:2bff:fe8d:1339"

#: The rest of what the pre-check looks at, on a node without a fault.
HEALTHY = {
    "cpu": {"load_1min": 0.0, "usable": 1, "governors": []},
    "memory": {"MemAvailable": 1, "MemTotal": 1},
    "file_systems": [],
}


def network(folder: Path, *listings: str) -> dict:
    """What the provenance says of a node with these files below /sys/class."""
    for listing in listings:
        for line in listing.splitlines():
            name, _, content = line.removeprefix("/sys/class/").partition(":")
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{content}\n")
    return provenance.network_devices(str(folder))


def unfit(network: dict, devices: str, gid_index=None, **limits) -> list[str]:
    return list(
        node_limits.limit_problems({**HEALTHY, "network": network}, limits, devices, gid_index)
    )


def test_a_recorded_port_is_described(tmp_path):
    ports = network(tmp_path, RXE)["infiniband"]
    assert list(ports) == ["rxe0:1", "rxe1:1"]
    assert ports["rxe0:1"] == {
        "rate": RATE,
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "Ethernet",
        "gids": {
            "0": {"gid": GID, "type": "RoCE v2", "interface": "eth0"},
            "1": {
                "gid": "0000:0000:0000:0000:0000:ffff:0a4d:0102",
                "type": "RoCE v2",
                "interface": "eth0",
            },
        },
        "counters": ["hw_counters"],
        "firmware": None,
        "numa_node": None,
        "virtual": False,
        "served": 4646,
    }


def test_a_recorded_port_that_went_down_is_named(tmp_path):
    assert unfit(network(tmp_path, DOWN), "rxe0:1,rxe1:1", 0, port_rate=RATE) == [
        "rxe1:1: state is 1: DOWN, not 4: ACTIVE",
        "rxe1:1: phys_state is 3: Disabled, not 5: LinkUp",
    ]


def test_a_port_that_is_ready_is_fit(tmp_path):
    found = network(tmp_path, RXE)
    assert unfit(found, "rxe0:1", 0, port_rate=RATE, link_layer="Ethernet") == []
    assert unfit(found, "rxe0:1", 1, gid_type="RoCE v2") == []
    assert unfit(found, "eth0") == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("state:4: ACTIVE", "state:1: DOWN", "state is 1: DOWN, not 4: ACTIVE"),
        ("5: LinkUp", "3: Disabled", "phys_state is 3: Disabled, not 5: LinkUp"),
        ("rxe0/ports/1/phys_state:", "rxe0/ports/1/x:", "phys_state is unreadable, not 5: LinkUp"),
        ("2.5 Gb/sec (1X SDR)", "5 Gb/sec (1X DDR)", f"rate is 5 Gb/sec (1X DDR), not {RATE}"),
        ("layer:Ethernet", "layer:InfiniBand", "link_layer is InfiniBand, not Ethernet"),
        (
            "gids/1:0000:0000:0000:0000:0000:ffff:0a4d:0102",
            "gids/1:0000:0000:0000:0000:0000:0000:0000:0000",
            f"there is no GID at index 1 (gid_index); there are: 0 ({GID})",
        ),
        (
            "types/1:RoCE v2",
            "types/1:IB/RoCE v1",
            "the type of the GID at index 1 is IB/RoCE v1, not RoCE v2",
        ),
    ],
)
def test_a_port_that_is_not_as_declared_is_named(tmp_path, old, new, said):
    assert old in RXE
    found = network(tmp_path, RXE.replace(old, new, 1))
    limits = {"port_rate": RATE, "link_layer": "Ethernet", "gid_type": "RoCE v2"}
    assert unfit(found, "rxe0:1", 1, **limits) == [f"rxe0:1: {said}"]


def test_a_port_that_is_not_there_is_named(tmp_path):
    said = "rxe2:1: there is no such port; there are: rxe0:1, rxe1:1"
    assert unfit(network(tmp_path, RXE), "rxe0:1,rxe2:1") == [said]
    assert unfit({"infiniband": {}}, "rxe0:1") == ["rxe0:1: there is no such port; there are: none"]


def test_a_port_that_is_slower_than_its_sibling_is_named(tmp_path):
    """The format is that of documents: no port of this kind was ever seen."""
    slow = MLX5.replace(
        "mlx5_1/ports/1/rate:100 Gb/sec (4X EDR)", "mlx5_1/ports/1/rate:50 Gb/sec (2X EDR)"
    )
    both = "mlx5_0:1,mlx5_1:1"
    assert unfit(network(tmp_path / "equal", MLX5), both, 0, link_layer="InfiniBand") == []
    assert unfit(network(tmp_path / "slow", slow), both) == [
        "mlx5_1:1: rate is 50 Gb/sec (2X EDR), that of mlx5_0:1 is 100 Gb/sec (4X EDR)"
    ]
    assert unfit(network(tmp_path / "slow", slow), "mlx5_1:1") == []


def test_the_census_compares_ports_and_not_their_addresses(tmp_path):
    other = RXE.replace("fe8d:1339", "fe8d:1340").replace("0a4d:0102", "0a4d:0103")
    texts = {"n1": RXE, "n2": other, "n3": other, "n4": other}
    nodes = {
        name: {**HEALTHY, "network": network(tmp_path / name, text)} for name, text in texts.items()
    }
    assert not any("infiniband" in line for line in census.differences(nodes))

    odd = other.replace("1/state:4: ACTIVE", "1/state:1: DOWN", 1)
    odd = odd.replace("types/1:RoCE v2", "types/1:IB/RoCE v1", 1)
    nodes["n3"]["network"] = network(tmp_path / "odd", odd)
    lines = [line for line in census.differences(nodes) if "infiniband" in line]
    assert lines == [
        "n3: network.infiniband rxe0:1 state is 1: DOWN, 4: ACTIVE on 3 others",
        "n3: network.infiniband rxe0:1 gids 1 type is IB/RoCE v1, RoCE v2 on 3 others",
    ]
