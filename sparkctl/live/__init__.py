"""What happens while a boot or a climb runs, as events, and what is made of them: a state, a view, lines of text, a hook's call."""
