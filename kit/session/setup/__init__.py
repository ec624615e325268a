"""The resources that a session prepares and undoes: filesystems, engines, caches, devices."""
