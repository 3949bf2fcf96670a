"""Agents: sessions of many turns whose prompts grow, with tool results and pauses, sent as a closed loop of live sessions."""
