"""Engram: the rows that n-gram tables hold for a token, found by hashing and kept where reading them costs least. Imports no sparkctl."""
