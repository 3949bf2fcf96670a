"""The factorial design: every boot counts for every lever. Pure: from the boots so far to the next boots and the verdicts."""
