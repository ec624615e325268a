"""Messages of a session on another machine or in a guest, and checks of their content."""
