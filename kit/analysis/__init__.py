"""What samples say: pairs, shared noise, ladders, rankings, outcomes, thresholds. Pure: takes words, gives words.

Each file owns one figure or one method and names its source. Imports core, parsers and model."""
