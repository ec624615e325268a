"""One run of one arm, from its sandbox to its sample; alone or interleaved with others."""
