"""Capacity: how many tokens the KV cache of a rank takes and what its memory holds, said before anything boots, and the pin after one."""

from launcher.capacity.offer import MARGIN_GIB, Pin, pin

__all__ = ["MARGIN_GIB", "Pin", "pin"]
