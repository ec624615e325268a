"""A session in a guest: the disks, the boot, and both sides of the conversation."""
