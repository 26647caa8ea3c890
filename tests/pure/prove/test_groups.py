"""Two groups of nodes and the link between them, as a site describes them."""

import pytest

from assay.prove import groups

SITE = {
    "groups": {"east": "node[01-04]", "west": "node[05-08]"},
    "bandwidth": 200,
    "latency": 145,
}
LINK = groups.parse_groups(SITE)


@pytest.mark.parametrize(
    "change,reason",
    [
        ({"bandwidth": 0}, "bandwidth: 0: expected a number > 0"),
        ({"latency": "145us"}, "latency: '145us': expected a number, got a text"),
        ({"groups": {"east": "node01"}}, "groups: .* expected a mapping of length >= 2"),
        ({"groups": {"east": "node[01-02]", "west": "node02"}}, "node02 is in both groups"),
        ({"bandwidth": float("inf")}, "bandwidth: inf: expected a number < "),
        ({"groups": {"east": "node[01", "west": "node02"}}, r"groups: east: 'node\[01' is no list"),
        ({"groups": {"east": ["node01"], "west": "node02"}}, r"groups: east: .* is no list of nod"),
        ({"groups": {"east": "", "west": "node02"}}, "groups: east: '' is no list of nodes; write"),
        ({"rate": 3}, "rate: unknown key; known are bandwidth, groups, latency"),
    ],
)
def test_a_wrong_description_names_its_key(change, reason):
    with pytest.raises(ValueError, match=reason):
        groups.parse_groups({**SITE, **change})


def test_half_of_the_nodes_of_a_job_are_asked_for_in_each_group():
    assert LINK.halves(4) == ["--constraint=[east*2&west*2]"]
    with pytest.raises(ValueError, match=r"^3 nodes are needed, which are not half on each side"):
        LINK.halves(3)
    with pytest.raises(ValueError, match=r"^5 nodes are needed in east, which has 4"):
        LINK.halves(10)


@pytest.mark.parametrize(
    "hosts,reason",
    [
        (["node01", "node02"], "not half on each side of the link: 2 in east, 0 in west"),
        (["node01", "node09"], "node09: in no group of the extra `between`"),
    ],
)
def test_ranks_on_one_side_do_not_pass_for_a_run_across(hosts, reason):
    assert LINK.astray(["node01.cluster", "node08.cluster", "node08.cluster"]) == []
    (problem,) = LINK.astray(hosts)
    assert reason in problem
