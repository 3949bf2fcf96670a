"""Hadamard matrices, by their definition."""

import numpy as np
import pytest

from tuner.factorial.hadamard import hadamard, order_for


@pytest.mark.parametrize("order", [order for order in range(4, 65, 4) if order != 52])
def test_columns_are_orthogonal(order: int) -> None:
    """H' H is order times the identity, and every entry is +1 or -1."""
    matrix = hadamard(order).astype(int)
    assert set(np.unique(matrix)) == {-1, 1}
    assert (matrix.T @ matrix == order * np.eye(order, dtype=int)).all()


def test_the_smallest_order_that_has_the_columns_is_taken() -> None:
    """52 is stepped over, and 65 columns are refused with the most there are."""
    assert [order_for(columns) for columns in (1, 4, 5, 12, 13, 49, 64)] == [4, 4, 8, 12, 16, 56, 64]
    with pytest.raises(ValueError, match="at most 64"):
        order_for(65)
    with pytest.raises(ValueError, match="order 52"):
        hadamard(52)
