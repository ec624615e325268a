"""What is removed, unpacked and listed below a directory that somebody else could write: by descriptors of directories,
so that no symlink leads elsewhere, and never behind another mount."""

from kit.beneath.cursor import Cursor, open_directory
from kit.beneath.remove import remove, remove_at

__all__ = ["Cursor", "open_directory", "remove", "remove_at"]
