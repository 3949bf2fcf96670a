"""The ledger: every boot, figure and verdict in one append-only file whose rows are chained by their hashes.

`entry` is a row and its chain, `bodies` what a row of each kind must say, `codec` one line of the file, `journal` the
file itself; `history` folds rows back into climbs, `best` and `table` into figures, `render` into the README's block.
"""
