"""What one session shows: ranking, ladder, scaling, tasks, thresholds, and when it may stop."""
