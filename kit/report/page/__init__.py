"""A session or a night as one HTML file that needs no network and no other file."""
