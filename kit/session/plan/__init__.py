"""The meaning of a request: scenarios, plan, interleaving, and the next round."""
