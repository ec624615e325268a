"""Bisections: the search for the first slow one of many commits or versions, by steps that may err."""
