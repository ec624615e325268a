"""What sessions show over time: series, change points, nights and their limits."""
