"""The matrix of scenarios and arms: its sentence, and the table for terminals, Markdown, pages and programs."""
