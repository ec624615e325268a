"""The matrix: what each arm costs in each scenario of one class of machines, means over scenarios, the choice."""
