"""Epochs: fingerprints of boots, and where they change."""

from pathlib import Path

from ledger.epochs import changes, epochs, fingerprint
from ledger.journal import Journal

DEMO = Path(__file__).parents[2] / "docs" / "demo" / "ledger.jsonl"


def test_the_fingerprint_is_what_the_parity_gates_measured() -> None:
    """Kernel, driver, firmware, image and engine of a real boot row, each once where all nodes say the same."""
    boots = [row.body for row in Journal(DEMO).read().rows if row.kind == "boot"]
    told = fingerprint(boots[0])
    assert told["kernel"] == "6.17.0-1032-nvidia"
    assert told["driver"] == "580.173.02"
    assert told["engine"] == "0.33.0"
    assert {"image", "firmware", "nccl", "patch", "model"} <= told.keys()
    assert "environment" not in told
    assert all(fingerprint(body) == told for body in boots if body["ok"])


def test_nodes_that_differ_are_each_named() -> None:
    """One node with another driver is another fingerprint, and the words say which node."""
    findings = [{"gate": "driver-parity", "node": f"n{at}", "measured": f"580.{at}"} for at in range(2)]
    assert fingerprint({"findings": findings}) == {"driver": "n0 580.0; n1 580.1"}


def test_an_epoch_ends_where_the_fingerprint_changes() -> None:
    """A boot that tells less belongs to the one before; going back is a new epoch; what changed is said."""
    told = ({"kernel": "1", "image": "a"}, {}, {"kernel": "2", "image": "a"}, {"kernel": "1", "image": "a"})
    found = epochs([(f"b{at}", one) for at, one in enumerate(told)])
    assert [(one.number, one.boots) for one in found] == [(1, ("b0", "b1")), (2, ("b2",)), (3, ("b3",))]
    assert found[1].changed == ("kernel: 1 before, 2 after",)
    assert changes({"image": "a"}, {"kernel": "2"}) == ()
