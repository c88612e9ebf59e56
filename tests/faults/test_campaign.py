"""A few rounds of every fault of the campaign; `make faults` runs many."""

import pytest

from tests.faults import campaign


@pytest.mark.exhaustive
def test_a_short_campaign_finds_no_fault(tmp_path, monkeypatch):
    # A fork of the server inherits no test's settings but these.
    monkeypatch.setenv("JAX_NUMPY_RANK_PROMOTION", "allow")
    made = campaign.campaign(tmp_path, kills=4, damages=3, others=1, seed=2)
    assert made.faults == []
    kinds = " ".join(made.counts)
    for kind in ("SIGKILL", "bit flipped", "truncated", "deleted", "disk full", "SIGTERM"):
        assert kind in kinds
    assert made.counts["second trainer refused"] == 1
    assert made.counts["SIGSTOP of process 0 of 2 for good"] == 1
