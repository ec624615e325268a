"""The pages of the documentation, for kit help and for the site: topics, generated parts, and pages with both."""
