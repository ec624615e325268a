"""What traced rounds show of an arm against its baseline: system calls, stacks, functions."""
