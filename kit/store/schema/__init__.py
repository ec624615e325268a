"""Tables, views, roles and rules of the store, and sessions as rows of its tables."""
