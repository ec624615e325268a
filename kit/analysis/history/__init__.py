"""What sessions show over time: series, change points, nights, differences of two sessions."""
