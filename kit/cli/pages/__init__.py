"""What pages of the documentation show of the code: arms, drivers, commands, metrics, keys."""
