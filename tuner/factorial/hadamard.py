"""Hadamard matrices: from an order to a square of +1 and -1 whose columns are orthogonal; every order from 4 to 64 but 52.

Sylvester doubles a matrix; Paley builds one from the squares modulo a prime q: order q + 1 where q = 3 modulo 4, order
2 (q + 1) where q = 1 modulo 4. Order 52 would take a field of 25 elements; `order_for` steps over it.
Source: R. Paley, On orthogonal matrices, J. Math. Phys. 12 (1933).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Signs = NDArray[np.int8]

_ORDERS = tuple(order for order in range(4, 65, 4) if order != 52)
_FIRST = {12: 11, 20: 19, 24: 23, 44: 43, 48: 47, 60: 59}
_SECOND = {28: 13, 36: 17}


def order_for(columns: int) -> int:
    """Return the smallest order that has that many columns; ValueError above 64."""
    found = next((order for order in _ORDERS if order >= columns), None)
    if found is None:
        raise ValueError(f"{columns} columns wanted, a Hadamard matrix here has at most {_ORDERS[-1]}")
    return found


def runs_of_block(factors: int) -> int:
    """Return how many runs a folded block of so many factors has: each row of the matrix and its mirror image."""
    return 2 * order_for(max(4, factors))


@lru_cache(maxsize=len(_ORDERS))
def hadamard(order: int) -> Signs:
    """Return a Hadamard matrix H, shape (order, order), H' H = order x identity; read-only."""
    if order == 1:
        matrix = np.ones((1, 1), dtype=np.int8)
    elif order in _FIRST:
        matrix = _paley_first(_FIRST[order])
    elif order in _SECOND:
        matrix = _paley_second(_SECOND[order])
    elif order % 2 == 0 and (order == 2 or order in _ORDERS):
        half = hadamard(order // 2)
        matrix = np.block([[half, half], [half, -half]]).astype(np.int8)
    else:
        raise ValueError(f"no Hadamard matrix of order {order} here, wanted one of {_ORDERS}")
    matrix.setflags(write=False)
    return matrix


def _paley_first(prime: int) -> Signs:
    order = prime + 1
    skew = np.zeros((order, order), dtype=np.int8)
    skew[0, 1:], skew[1:, 0] = 1, -1
    skew[1:, 1:] = _squares(prime)
    return (skew + np.eye(order, dtype=np.int8)).astype(np.int8)


def _paley_second(prime: int) -> Signs:
    order = prime + 1
    conference = np.ones((order, order), dtype=np.int8)
    conference[0, 0] = 0
    conference[1:, 1:] = _squares(prime)
    ones = np.array([[1, 1], [1, -1]], dtype=np.int8)
    spare = np.array([[1, -1], [-1, -1]], dtype=np.int8)
    return (np.kron(conference, ones) + np.kron(np.eye(order, dtype=np.int8), spare)).astype(np.int8)


def _squares(prime: int) -> Signs:
    """Return Jacobsthal's matrix: at (i, j) 1 where i - j is a square modulo the prime, -1 where it is none, 0 if i = j."""
    character = np.full(prime, -1, dtype=np.int8)
    character[[number * number % prime for number in range(1, prime)]] = 1
    character[0] = 0
    at = np.arange(prime)
    squares: Signs = character[(at[:, None] - at[None, :]) % prime]
    return squares
