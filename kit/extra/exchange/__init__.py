"""``kit export`` and ``kit import``: sessions for other stores, figures for other programs, and runs that others timed.

``runs`` reads files and logs of other programs, one file each, and imports core and parsers alone. Imports the store,
report, the command line and words."""
