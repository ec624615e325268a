"""Sessions as files of other programs: penalties for those that track them, times for the others."""
