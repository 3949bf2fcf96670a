"""The practice cluster: four nodes with real SSH, GB10-like faces and a served endpoint, on this machine alone.

Everything that comes out of it is simulated. This file imports nothing: the node's commands start from here and have
to be quick.
"""
