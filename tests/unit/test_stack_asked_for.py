"""ASSAY_STACK: one stack of a site, since ReFrame's -p does nothing beside --mode."""

from pathlib import Path

import pytest

pytest.importorskip("reframe")

from reframe.core.exceptions import ConfigError

from assay import sites

H100 = Path(__file__).resolve().parents[2] / "site-config" / "h100" / "reframe.py"


def site():
    systems = [
        {
            "name": "h100",
            "partitions": [
                {"name": "both", "environs": ["spack", "container"]},
                {"name": "one", "environs": ["spack"]},
            ],
        }
    ]
    return systems, [{"name": "spack"}, {"name": "container"}]


def test_without_it_a_site_is_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    found = sites.configuration(H100, *site())
    assert [p["environs"] for p in found["systems"][0]["partitions"]] == [
        ["spack", "container"],
        ["spack"],
    ]


def test_the_other_stacks_and_partitions_without_any_are_left_out(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.setenv("ASSAY_STACK", "container")
    found = sites.configuration(H100, *site())
    partitions = found["systems"][0]["partitions"]
    assert [(p["name"], p["environs"]) for p in partitions] == [("both", ["container"])]
    assert [e["name"] for e in found["environments"]] == ["container"]


def test_an_unknown_stack_is_one_line_with_those_there_are(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.setenv("ASSAY_STACK", "spark")
    with pytest.raises(ConfigError, match=r"no stack 'spark'.*there are spack, container"):
        sites.configuration(H100, *site())
