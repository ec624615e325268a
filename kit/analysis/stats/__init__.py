"""Statistics of numbers alone: arrays in, estimates and intervals out. Knows neither arms nor sessions."""
