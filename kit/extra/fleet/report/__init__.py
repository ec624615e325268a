"""A fleet for people: its machines, what an arm costs on them, how many machines are needed."""
