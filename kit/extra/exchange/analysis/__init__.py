"""Which of a session's figures other programs follow over time. Computes none."""
