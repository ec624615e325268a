"""``kit serve`` and ``kit site``: the store as read-only pages of this machine, or as files.

Imports report, fleet, the store and words. Pages of other extras come from kit.report.page.store_page."""
