"""Page: the report as one self-contained file of HTML, its plots drawn as SVG from the ledger's own numbers; no script, nothing fetched."""
