"""A few rounds of every fault of the campaign; `make faults` runs many."""

import contextlib

import pytest

from tests.faults import campaign, rounds


@pytest.mark.parametrize("fault", [rounds.Round.filling_disk, rounds.Round.read_only])
def test_a_fault_that_this_machine_cannot_cause_is_counted(fault, tmp_path, monkeypatch):
    """Nothing can be mounted, and the user may write everywhere."""
    monkeypatch.setattr(rounds, "mounted", lambda *given: contextlib.nullcontext(False))
    monkeypatch.setattr(rounds.os, "getuid", lambda: 0)
    undisturbed = tmp_path / "undisturbed"
    (undisturbed / "checkpoints" / f"{rounds.STEPS}").mkdir(parents=True)
    made = rounds.Round(None, tmp_path / "scratch", undisturbed, "1")
    fault(made)
    assert [what.endswith(rounds.IMPOSSIBLE) for what in made.counts] == [True]


@pytest.mark.exhaustive
def test_a_short_campaign_finds_no_fault(tmp_path, monkeypatch):
    # A fork of the server inherits no test's settings but these.
    monkeypatch.setenv("JAX_NUMPY_RANK_PROMOTION", "allow")
    made = campaign.campaign(tmp_path, kills=4, damages=3, others=1, seed=2)
    assert made.faults == []
    kinds = " ".join(made.counts)
    for kind in ("SIGKILL", "bit flipped", "truncated", "deleted", "disk full", "SIGTERM"):
        assert kind in kinds
    for what in ("disk filled between two saves", "read-only folder"):
        assert [kind in made.counts for kind in (what, what + rounds.IMPOSSIBLE)].count(True) == 1
    assert made.counts["SIGSTOP, SIGCONT"] == made.counts["second trainer refused"] == 1
    assert made.counts["SIGSTOP of process 0 of 2 for good"] == 1
