"""The proxy in front of a line: watches replies while they stream, rolls back and goes on with full reads when one is about to collapse."""
