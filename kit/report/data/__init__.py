"""A session or a night for programs: JSON, CSV, JUnit, pytest-benchmark's JSON."""
